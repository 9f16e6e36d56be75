// Filters, order and cards. Thousands of items are numbers in arrays; cards are made as they come into sight.
const STEP = 120;
const list = document.getElementById("gallery");
const filters = document.getElementById("filters");
const more = document.getElementById("more");
const least = document.getElementById("least");
const order = document.getElementById("order");
let passing = [];
let made = 0;

function card(row) {
  const item = make("li");
  const button = make("button", state(row) === gallery.lit ? "card lit" : "card");
  button.type = "button";
  button.dataset.row = row;
  button.tabIndex = -1;
  button.setAttribute("aria-label", `${title(row)}, ${subtitle(row)}, ${state(row)}`);
  button.append(tiles(row), make("b", "", title(row)), make("span", "words", subtitle(row)));
  item.append(button);
  return item;
}

function makeMore() {
  const next = passing.slice(made, made + STEP);
  made += next.length;
  list.append(...next.map(card));
  more.hidden = made >= passing.length;
  more.textContent = `Show more (${(passing.length - made).toLocaleString("en")} left)`;
}

function passes(row) {
  for (const select of filters.querySelectorAll("[data-choice]")) {
    if (select.value !== "" && columns.get(select.dataset.choice).values[row] !== Number(select.value)) return false;
  }
  const value = columns.get(gallery.title).values[row];
  return !least || Number(least.value) <= Number(least.min) || (value !== null && value >= Number(least.value));
}

function refresh() {
  const values = columns.get(gallery.title).values;
  const direction = Number(order?.value ?? -1);
  const worst = direction < 0 ? -Infinity : Infinity;
  passing = [...values.keys()].filter(passes);
  if (!gallery.ranked) passing.sort((a, b) => direction * ((values[a] ?? worst) - (values[b] ?? worst)) || a - b);
  list.replaceChildren();
  made = 0;
  makeMore();
  list.querySelector(".card")?.setAttribute("tabindex", "0");
  document.getElementById("none").hidden = passing.length > 0;
  const total = values.length.toLocaleString("en");
  const asked = filters.querySelector('[data-choice="state"]')?.value;
  const lit = gallery.lit && !asked ? `, ${passing.filter((row) => state(row) === gallery.lit).length} of them ${gallery.lit}` : "";
  document.getElementById("count").textContent = `Showing ${passing.length.toLocaleString("en")} of ${total}${lit}.`;
  if (least) least.parentElement.querySelector("output").textContent = Number(least.value).toFixed(2);
}

/** Arrow keys walk over the cards; the tab key enters and leaves the gallery at one of them. */
function walkCards(event) {
  const cards = [...list.querySelectorAll(".card")];
  const at = cards.indexOf(document.activeElement);
  const top = cards[0]?.offsetTop;
  const across = Math.max(1, cards.findIndex((other) => other.offsetTop !== top));
  const steps = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -across, ArrowDown: across, Home: -at, End: cards.length - 1 - at };
  const next = cards[at + (steps[event.key] ?? NaN)];
  if (at < 0 || !next) return;
  event.preventDefault();
  cards[at].tabIndex = -1;
  next.tabIndex = 0;
  next.focus();
}

if (list) {
  filters.hidden = false;
  if (least) least.step = least.dataset.step;
  filters.addEventListener("input", refresh);
  filters.addEventListener("submit", (event) => event.preventDefault());
  filters.addEventListener("reset", () => setTimeout(refresh));
  document.getElementById("all").addEventListener("click", () => {
    for (const select of filters.querySelectorAll("[data-choice]")) select.value = "";
    if (least) least.value = least.min;
    refresh();
    list.querySelector(".card")?.focus();
  });
  more.addEventListener("click", () => {
    const first = made;
    makeMore();
    list.querySelectorAll(".card")[first]?.focus();
  });
  list.addEventListener("keydown", walkCards);
  list.addEventListener("click", (event) => {
    const chosen = event.target.closest(".card");
    if (chosen) showDetail(passing, passing.indexOf(Number(chosen.dataset.row)));
  });
  new IntersectionObserver((seen) => seen.some((entry) => entry.isIntersecting) && makeMore(), {
    rootMargin: "600px",
  }).observe(more);
  refresh();
}
