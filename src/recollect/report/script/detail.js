// One item, large, with everything known about it.
const detail = document.getElementById("detail");
let walk = { rows: [], at: 0 };

function showDetail(rows, at) {
  walk = { rows, at };
  const row = rows[at];
  const pictures = detail.querySelector(".pictures");
  pictures.replaceChildren(
    ...gallery.tileNames.map((name, place) => {
      const figure = make("figure");
      figure.append(tile(row, place), make("figcaption", "", name));
      return figure;
    }),
  );
  const facts = gallery.columns.filter((column) => column.values[row] !== null);
  const list = detail.querySelector("dl");
  list.replaceChildren(...facts.flatMap((column) => [make("dt", "", column.label), make("dd", "", words(column, row))]));
  detail.querySelector('[data-go="-1"]').disabled = at === 0;
  detail.querySelector('[data-go="1"]').disabled = at === rows.length - 1;
  if (!detail.open) detail.showModal();
}

function goDetail(step) {
  const next = walk.at + step;
  if (next >= 0 && next < walk.rows.length) showDetail(walk.rows, next);
}

if (detail) {
  detail.addEventListener("click", (event) => {
    if (event.target === detail) detail.close();
    const step = Number(event.target.dataset?.go ?? NaN);
    if (step === 0) detail.close();
    else if (!Number.isNaN(step)) goDetail(step);
  });
  detail.addEventListener("keydown", (event) => {
    if (event.key === "ArrowLeft") goDetail(-1);
    if (event.key === "ArrowRight") goDetail(1);
  });
}
