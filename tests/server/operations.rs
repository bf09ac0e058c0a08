//! Operations on bins, their results, and expressions.

use crate::server_client::*;

#[test]
fn lists_are_edited_by_calls() {
    let running = serve();
    let mut wire = Wire::to(running.handle.addr());
    // Append 7 to an ordered list without duplicates.
    let append = Message::about(0, WRITE, 0, 1).op(4, 4, "l", &[0x94, 1, 7, 1, 1]);
    let answer = wire.ask(&append);
    assert_eq!((answer.ops[0].code, answer.int("l")), (4, 1));
    assert_eq!(wire.ask(&append).code, 24);
    let size = Message::about(READ, RESPOND_ALL_OPS, 0, 1).op(3, 4, "l", &[0x91, 16]);
    let answer = wire.ask(&size);
    assert_eq!((answer.ops[0].code, answer.int("l")), (3, 1));
    let malformed = Message::about(READ, 0, 0, 1).op(3, 4, "l", &[0x93, 16]);
    assert_eq!(wire.ask(&malformed).code, 4);
}

#[test]
fn results_keep_the_form_that_they_have_in_the_record() {
    let running = serve();
    let mut wire = Wire::to(running.handle.addr());
    let map = [0x82, 0xa2, 3, b'a', 3, 0xa2, 3, b'b', 1];
    let put = Message::about(0, WRITE, 0, 1)
        .op(2, 19, "m", &map)
        .op(2, 9, "python", b"pickled")
        .op(2, 3, "text", &[0xff, 0xfe]);
    assert_eq!(wire.ask(&put).code, 0);
    // Pairs by value come as a map that says that its order counts (flag 8).
    let pairs = [0x94, 106, 8, 0, 2];
    let operate = |info2| {
        Message::about(READ, info2, 0, 1)
            .op(3, 4, "m", &pairs)
            .op(1, 0, "python", &[])
            .op(1, 0, "text", &[])
    };
    let reads = operate(RESPOND_ALL_OPS);
    let writes = operate(WRITE).op(2, 1, "i", &[0; 8]);
    for request in [reads, writes] {
        let answer = wire.ask(&request);
        let found: Vec<_> = answer
            .ops
            .iter()
            .map(|op| (op.code, op.kind, &op.value[..]))
            .collect();
        let ordered = [0x83, 0xc7, 0, 8, 0xc0, 0xa2, 3, b'b', 1, 0xa2, 3, b'a', 3];
        assert_eq!(
            found,
            [
                (3, 19, &ordered[..]),
                (1, 9, b"pickled"),
                (1, 3, &[0xff, 0xfe])
            ]
        );
    }
}

#[test]
fn filters_and_expressions_are_evaluated() {
    let running = serve();
    let mut wire = Wire::to(running.handle.addr());
    wire.ask(&Message::put(1, "i", 7));
    // i > 3, i > 8, and bytes that are not an expression.
    let greater = |than: u8| [0x93, 3, 0x93, 0x51, 2, 0xa1, b'i', than];
    let get = |filter: &[u8]| Message::get(1).field(43, filter);
    assert_eq!(wire.ask(&get(&greater(3))).code, 0);
    assert_eq!(wire.ask(&get(&greater(8))).code, 27);
    assert_eq!(wire.ask(&get(&[0xc1])).code, 4);
    // A filter counts only for a record that exists; so does an invalid one.
    assert_eq!(wire.ask(&Message::get(2).field(43, &[0xc1])).code, 2);
    let put = |key, filter: &[u8]| Message::put(key, "i", 9).field(43, filter);
    assert_eq!(wire.ask(&put(1, &greater(8))).code, 27);
    assert_eq!(wire.ask(&put(3, &greater(100))).code, 0);
    assert_eq!(wire.ask(&Message::get(1)).int("i"), 7);
    let delete = Message::about(0, WRITE | DELETE, 0, 1).field(43, &greater(8));
    assert_eq!(wire.ask(&delete).code, 27);
    // res = i + 1
    let sum = [0x92, 0x93, 0x14, 0x93, 0x51, 2, 0xa1, b'i', 1, 0];
    let read = Message::about(READ, RESPOND_ALL_OPS, 0, 1).op(7, 4, "res", &sum);
    let answer = wire.ask(&read);
    assert_eq!((answer.ops[0].code, answer.int("res")), (7, 8));
}

#[test]
fn text_and_bytes_are_joined_to_their_own_type() {
    const ADD: u8 = 5;
    const APPEND: u8 = 9;
    const PREPEND: u8 = 10;
    let running = serve();
    let mut wire = Wire::to(running.handle.addr());
    // Text, bytes, and the bytes of Java, C#, Python, Ruby, PHP and Erlang.
    let types = [3, 4, 7, 8, 9, 10, 11, 12];
    for (key, kind) in (0..).zip(types) {
        let change =
            |code, kind, value: &[u8]| Message::about(0, WRITE, 0, key).op(code, kind, "v", value);
        // A missing bin becomes the operand, with its type.
        assert_eq!(wire.ask(&change(APPEND, kind, b"b")).code, 0, "{kind}");
        for other in types {
            let code = if other == kind { 0 } else { 12 };
            assert_eq!(wire.ask(&change(APPEND, other, b"c")).code, code);
            assert_eq!(wire.ask(&change(PREPEND, other, b"a")).code, code);
        }
        assert_eq!(wire.ask(&change(APPEND, 0, b"")).code, 4, "{kind}");
        assert_eq!(wire.ask(&change(APPEND, 1, &[0; 8])).code, 12, "{kind}");
        assert_eq!(wire.ask(&change(ADD, kind, b"1")).code, 12, "{kind}");
        let answer = wire.ask(&Message::get(key));
        let op = &answer.ops[0];
        assert_eq!((op.kind, &op.value[..]), (kind, &b"abc"[..]));
        // Even a number that is added to nothing may be bytes.
        let added = Message::about(0, WRITE, 0, key).op(ADD, kind, "new", b"1");
        assert_eq!(wire.ask(&added).code, 0, "{kind}");
        assert_eq!(wire.ask(&Message::get(key)).ops[1].kind, kind);
    }
}
