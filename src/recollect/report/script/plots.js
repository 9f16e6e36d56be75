// Charts can be read with a pointer, a finger or the arrow keys.
function nearest(readings, x, y) {
  let best = -1;
  let least = Infinity;
  for (let place = 0; place < readings.x.length; place++) {
    if (readings.x[place] === null || readings.y[place] === null) continue;
    const across = readings.x[place] - x;
    const down = readings.near === "point" ? readings.y[place] - y : 0;
    const distance = across * across + down * down;
    if (distance < least) [best, least] = [place, distance];
  }
  return best;
}

function makeReadable(svg, readings) {
  const tip = svg.parentElement.querySelector(".tip");
  const mark = svg.querySelector(".found");
  const places = readings.x.map((_, place) => place).filter((place) => readings.x[place] !== null && readings.y[place] !== null);
  let at = -1;

  function hide() {
    at = -1;
    tip.hidden = true;
    mark.setAttribute("hidden", "");
  }

  function show(place) {
    if (place < 0 || place === at) return;
    at = place;
    mark.setAttribute("cx", readings.x[place]);
    mark.setAttribute("cy", readings.y[place]);
    mark.removeAttribute("hidden");
    if (readings.texts) tip.replaceChildren(make("span", "", readings.texts[place]));
    else tip.replaceChildren(tiles(place), make("b", "", title(place)), make("span", "", `${subtitle(place)} · ${state(place)}`));
    tip.hidden = false;
    const scale = svg.clientWidth / svg.viewBox.baseVal.width;
    const left = readings.x[place] * scale;
    const room = svg.clientWidth - tip.offsetWidth;
    tip.style.left = `${Math.max(0, Math.min(room, left - tip.offsetWidth / 2))}px`;
    const above = readings.y[place] * scale - tip.offsetHeight - 12;
    tip.style.top = `${above >= 0 ? above : readings.y[place] * scale + 14}px`;
  }

  function follow(event) {
    const box = svg.getBoundingClientRect();
    const scale = svg.viewBox.baseVal.width / box.width;
    show(nearest(readings, (event.clientX - box.left) * scale, (event.clientY - box.top) * scale));
  }

  function press(event) {
    const now = places.indexOf(at);
    const steps = { ArrowRight: now + 1, ArrowLeft: now - 1, Home: 0, End: places.length - 1 };
    if (event.key === "Escape") hide();
    if (event.key === "Enter" && at >= 0 && !readings.texts) {
      event.preventDefault(); // or the same key would press the first button of what it opens
      showDetail(places, now);
    }
    if (!(event.key in steps)) return;
    event.preventDefault();
    show(places[Math.max(0, Math.min(places.length - 1, steps[event.key]))]);
  }

  svg.setAttribute("tabindex", "0");
  svg.setAttribute("aria-description", "Arrow keys read the values one by one.");
  svg.addEventListener("pointermove", follow);
  svg.addEventListener("pointerdown", follow);
  svg.addEventListener("pointerleave", hide);
  svg.addEventListener("click", () => at >= 0 && !readings.texts && showDetail(places, places.indexOf(at)));
  svg.addEventListener("focus", () => at < 0 && svg.matches(":focus-visible") && show(places[0] ?? -1));
  svg.addEventListener("blur", hide);
  svg.addEventListener("keydown", press);
}

for (const svg of document.querySelectorAll("svg[data-plot]")) {
  const readings = data.plots[svg.dataset.plot];
  if (readings?.x.length) makeReadable(svg, readings);
}
