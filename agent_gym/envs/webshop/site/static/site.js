"use strict";
// A chosen option leads to the same page with that option in its address.
document.addEventListener("change", (event) => {
  const chip = event.target;
  if (chip instanceof HTMLInputElement && chip.type === "radio" && chip.dataset.url) {
    window.location.assign(chip.dataset.url);
  }
});
// A picture that cannot be loaded gives way to the drawing.
document.addEventListener("error", (event) => {
  const picture = event.target;
  if (picture instanceof HTMLImageElement && !picture.src.includes("/static/picture-")) {
    picture.src = "/static/picture-210.svg";
  }
}, true);
