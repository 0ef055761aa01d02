"use strict";
// Keys of a served page: arrows walk, "/" goes to the search, a choice is taken at once.
document.addEventListener("keydown", (event) => {
  const typing = event.target.closest("input, select, textarea, .cells, .wide");
  if (typing || event.ctrlKey || event.metaKey || event.altKey) return;
  const names = { ArrowLeft: "previous", ArrowRight: "next" };
  const link = document.getElementById(names[event.key]);
  if (link) {
    sessionStorage.setItem("scroll", String(window.scrollY));
    link.click();
  }
  const search = document.getElementById("search");
  if (event.key === "/" && search) {
    event.preventDefault();
    search.focus();
  }
});
document.addEventListener("change", (event) => {
  if (event.target.matches("select")) event.target.form.requestSubmit();
});
const place = sessionStorage.getItem("scroll");
sessionStorage.removeItem("scroll");
if (place) window.scrollTo(0, Number(place));
