const gallery = data.gallery;
const columns = new Map((gallery?.columns ?? []).map((column) => [column.name, column]));

/** The value of a column in words, as the page writes it without scripts too. */
function words(column, row) {
  const value = column.values[row];
  if (value === null) return "—";
  return column.names ? column.names[value] : value.toFixed(column.digits);
}

/** One picture: a window on a sheet. */
function tile(row, place) {
  const number = gallery.tiles[place][row];
  const each = gallery.sheet.columns * gallery.sheet.rows;
  const made = make("span", `tile s${Math.floor(number / each)}`);
  made.style.setProperty("--column", (number % each) % gallery.sheet.columns);
  made.style.setProperty("--row", Math.floor((number % each) / gallery.sheet.columns));
  made.setAttribute("role", "img");
  made.setAttribute("aria-label", gallery.tileNames[place]);
  return made;
}

function tiles(row) {
  const made = make("span", "tiles");
  made.append(...gallery.tileNames.map((_, place) => tile(row, place)));
  return made;
}

function title(row) {
  const column = columns.get(gallery.title);
  return `${column.label} ${words(column, row)}`;
}

function subtitle(row) {
  const chosen = (column) => document.querySelector(`[data-choice="${column.name}"]`)?.value;
  const shown = gallery.columns.filter((column) => column.onCard && !chosen(column));
  return shown.map((column) => `${column.label} ${words(column, row)}`).join(" · ");
}

const state = (row) => words(columns.get("state"), row);
