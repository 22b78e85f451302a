// The year by keys: one day, week or month is a tab stop, arrows go to the nearest one that holds anything. Without this, all are.
const chart = document.querySelector("svg.year");

function rove(links, place) {
  for (const link of links) link.setAttribute("tabindex", "-1");
  links[place]?.setAttribute("tabindex", "0");
}

// Days: up and down by a day, sideways by a week, to the nearest that holds anything in that direction.
const DAY = 86400000;
function days(links) {
  const at = links.map((link) => Date.parse(link.dataset.day) / DAY);
  const nearest = (from, step) => {
    const wanted = at[from] + step;
    const there = at.map((day, place) => [Math.abs(day - wanted), place]).filter(([, place]) => (at[place] - at[from]) * step > 0);
    return there.length ? there.reduce((best, one) => (one[0] < best[0] ? one : best))[1] : from;
  };
  return { ArrowUp: (p) => nearest(p, -1), ArrowDown: (p) => nearest(p, 1), ArrowLeft: (p) => nearest(p, -7), ArrowRight: (p) => nearest(p, 7) };
}

// Weeks and months: one row.
function row(links) {
  const back = (p) => Math.max(p - 1, 0), on = (p) => Math.min(p + 1, links.length - 1);
  return { ArrowUp: back, ArrowLeft: back, ArrowDown: on, ArrowRight: on };
}

for (const [name, moves] of [["day", days], ["week", row], ["month", row]]) {
  const links = [...(chart?.querySelectorAll(`a[data-${name}]`) ?? [])];
  if (!links.length) continue;
  const steps = { ...moves(links), Home: () => 0, End: () => links.length - 1 };
  rove(links, links.length - 1);
  chart.addEventListener("keydown", (event) => {
    const place = links.indexOf(event.target.closest("a"));
    if (place < 0 || !(event.key in steps) || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    event.stopPropagation();
    const next = steps[event.key](place);
    rove(links, next);
    links[next].focus();
    links[next].scrollIntoView({ block: "nearest", inline: "nearest" });
  });
}

// The latest days are what is looked for first: where the year does not fit, its end of what is recorded is shown.
const last = [...(chart?.querySelectorAll("a[data-day]") ?? [])].at(-1);
const box = document.getElementById("year");
if (last && box && box.scrollWidth > box.clientWidth) {
  box.scrollLeft += last.getBoundingClientRect().right - box.getBoundingClientRect().right + 24;
}
