// What the page is asked in its frame. It answers in the title of the page around it, which is what comes out of the browser.
const page = document.documentElement;
const rows = document.querySelector("#sizes-2 tbody, #rates--writers-and-shards-2 tbody").rows;
const focusable = [...document.querySelectorAll("a, summary, [tabindex='0']")];
const shown = (chart, which) => [...chart.querySelectorAll(which)]
  .filter(text => getComputedStyle(text).display != "none").map(text => text.getBoundingClientRect());
const wide = [...document.querySelectorAll(".scroll")].filter(box => box.scrollWidth > box.clientWidth);
parent.document.title = JSON.stringify({
  width: innerWidth,
  scroll: page.scrollWidth,
  background: getComputedStyle(document.body).backgroundColor,
  text: getComputedStyle(document.body).color,
  charts: [...document.querySelectorAll("svg.chart")].map(chart => {
    const box = chart.getBoundingClientRect();
    const type = parseFloat(getComputedStyle(chart.querySelector("text.t")).fontSize);
    return {width: box.width, height: box.height, right: box.right, type: type * box.width / 720,
            bars: chart.querySelectorAll("rect.b").length};
  }),
  overlaps: [...document.querySelectorAll("svg.chart")].map(chart => {
    const boxes = shown(chart, "text.t, text.ml, text.bl");
    return boxes.filter((a, n) => boxes.some((b, m) => m > n && a.left < b.right && b.left < a.right
      && a.top < b.bottom && b.top < a.bottom)).length;
  }),
  cut: [...document.querySelectorAll("svg.chart")].map(chart => {
    const box = chart.getBoundingClientRect();
    return shown(chart, "text").filter(text => text.left < box.left - 1 || text.right > box.right + 1).length;
  }),
  contrast: Math.min(...contrasts),
  texts: texts.length,
  wide: wide.length,
  hinted: wide.filter(box => box.tabIndex == 0 && box.ariaLabel && getComputedStyle(box).backgroundImage.includes("gradient")
    && box.querySelector("caption").getBoundingClientRect().right <= innerWidth).length,
  values: [...rows].map(row => [...row.cells].map(cell => cell.dataset.value ?? cell.textContent)),
  focusable: focusable.length,
  hidden: focusable.filter(one => one.tabIndex < 0).length,
  sticky: getComputedStyle(document.querySelector("nav")).position,
});
