const data = JSON.parse(document.getElementById("data").textContent);

/** An element with a class and a text; text never becomes HTML. */
function make(tag, name, text) {
  const made = document.createElement(tag);
  if (name) made.className = name;
  if (text !== undefined) made.textContent = text;
  return made;
}

// Colours follow the system until the reader chooses.
const themeButton = document.getElementById("theme");
const systemDark = matchMedia("(prefers-color-scheme: dark)");
const isDark = () => (document.documentElement.dataset.theme ?? (systemDark.matches ? "dark" : "light")) === "dark";
const showTheme = () => {
  themeButton.textContent = isDark() ? "Light" : "Dark";
  themeButton.setAttribute("aria-label", isDark() ? "Use light colours" : "Use dark colours");
  themeButton.setAttribute("aria-pressed", String(isDark()));
};
themeButton.addEventListener("click", () => {
  document.documentElement.dataset.theme = isDark() ? "light" : "dark";
  showTheme();
});
systemDark.addEventListener("change", showTheme);
themeButton.hidden = false;
showTheme();

// On paper nothing can be opened: what should be printed is opened first, and closed afterwards.
let opened = [];
addEventListener("beforeprint", () => {
  opened = [...document.querySelectorAll("details.printed:not([open])")];
  for (const details of opened) details.open = true;
});
addEventListener("afterprint", () => {
  for (const details of opened) details.open = false;
});
