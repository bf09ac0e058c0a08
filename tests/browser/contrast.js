// The contrast of each text with what is behind it (WCAG 2): the first solid colour of its ancestors, and the bands of a chart.
const colour = text => (text.match(/[\d.]+/g) || [0, 0, 0, 0]).map(Number);
const over = ([r, g, b, alpha = 1], below) => [r, g, b].map((part, n) => part * alpha + below[n] * (1 - alpha));
const light = rgb => rgb.slice(0, 3).map(part => part / 255).map(part => part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4)
  .reduce((sum, part, n) => sum + part * [0.2126, 0.7152, 0.0722][n], 0);
const ratio = (a, b) => (Math.max(light(a), light(b)) + 0.05) / (Math.min(light(a), light(b)) + 0.05);
const isSolid = one => (colour(getComputedStyle(one).backgroundColor)[3] ?? 1) == 1;
function behind(text) {
  let one = text.ownerSVGElement || text;
  const pictures = [];
  for (; !isSolid(one) && one != document.body; one = one.parentElement) pictures.push(getComputedStyle(one).backgroundImage);
  return [colour(getComputedStyle(one).backgroundColor), pictures.every(picture => picture == "none")];
}
const texts = [...document.querySelectorAll("body *")].filter(one =>
  [...one.childNodes].some(node => node.nodeType == 3 && node.data.trim()) && !["SCRIPT", "title", "desc"].includes(one.tagName));
const contrasts = texts.map(text => {
  const [back, isPlain] = behind(text);
  const bands = text.ownerSVGElement ? [...text.ownerSVGElement.querySelectorAll(".band")].slice(0, 1) : [];
  const backs = [back, ...bands.map(band => over(colour(getComputedStyle(band).fill), back))];
  const drawn = colour(text.ownerSVGElement ? getComputedStyle(text).fill : getComputedStyle(text).color);
  return isPlain ? Math.min(...backs.map(back => ratio(drawn, back))) : 0;
});
