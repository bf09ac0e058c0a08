// Drives a served store through the Aerospike Node client: does it connect, and do the usual requests work?
//
// Usage: node smoke.js PORT

const assert = require('node:assert/strict')
const Aerospike = require('aerospike')

const { operations: op, lists, maps, exp } = Aerospike

async function refusedWith (code, request) {
  await assert.rejects(request, (error) => error.code === code)
}

async function main (port) {
  const client = await Aerospike.connect({ hosts: [{ addr: '127.0.0.1', port }], log: { level: Aerospike.log.OFF } })
  const key = new Aerospike.Key('test', 'node', 'one')
  const bins = { i: 7, s: 'héllo', f: 1.5, b: Buffer.from([1, 2]), l: [1, 'a'], m: { x: 1 } }
  await client.put(key, bins)
  const record = await client.get(key)
  assert.deepEqual(record.bins, bins)
  assert.equal(record.gen, 1)
  assert.equal(await client.exists(key), true)
  const selected = await client.select(key, ['i'])
  assert.deepEqual(selected.bins, { i: 7 })

  const operated = await client.operate(key, [op.incr('i', 3), op.read('i'), lists.append('l', 2), maps.put('m', 'y', 2)])
  assert.deepEqual(operated.bins, { i: 10, l: 3, m: 2 })
  await refusedWith(27, client.get(key, new Aerospike.ReadPolicy({ filterExpression: exp.gt(exp.binInt('i'), exp.int(99)) })))
  await refusedWith(2, client.get(new Aerospike.Key('test', 'node', 'none')))

  const keys = [...Array(20).keys()].map((n) => new Aerospike.Key('test', 'nodes', n))
  await Promise.all(keys.map((key, n) => client.put(key, { n })))
  const batch = await client.batchRead(keys.map((key) => ({ key, readAllBins: true })))
  assert.deepEqual(batch.map((row) => row.record.bins.n), [...Array(20).keys()])
  const large = exp.gt(exp.binInt('n'), exp.int(1))
  const filtered = await client.batchRead(keys.slice(0, 4).map((key) => ({ key, readAllBins: true })), new Aerospike.BatchPolicy({ filterExpression: large }))
  assert.deepEqual(filtered.map((row) => row.status), [27, 27, 0, 0])
  await client.put(key, { large: Buffer.alloc(65536) })
  const small = exp.lt(exp.recordSize(), exp.int(65536 + 512))
  assert.equal((await client.get(key, new Aerospike.ReadPolicy({ filterExpression: small }))).bins.large.length, 65536)
  await client.query('test', 'nobody').operate([op.write('n', 1)])

  const index = await client.createIntegerIndex({ ns: 'test', set: 'nodes', bin: 'n', index: 'nodes-n' })
  await index.wait(10)
  const ranged = client.query('test', 'nodes', { filters: [Aerospike.filter.range('n', 3, 15)], maxRecords: 4, paginate: true })
  const numbers = []
  do {
    const page = await ranged.results()
    assert.ok(page.length <= 4)
    numbers.push(...page.map((record) => record.bins.n))
  } while (ranged.hasNextPage())
  assert.deepEqual(numbers.sort((a, b) => a - b), [...Array(13).keys()].map((n) => n + 3))
  await client.indexRemove('test', 'nodes-n')
  const found = await client.scan('test', 'nodes').results()
  assert.deepEqual(found.map((record) => record.bins.n).sort((a, b) => a - b), [...Array(20).keys()])

  await client.truncate('test', 'nodes', 0)
  await client.remove(key)
  assert.equal(await client.exists(key), false)
  client.close()
  console.log('node: well')
}

main(Number(process.argv[2])).catch((error) => {
  console.error(error)
  process.exit(1)
})
