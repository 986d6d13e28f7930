"use strict";
for (const button of document.querySelectorAll(".example button")) {
  button.hidden = false;
  button.onclick = async () => {
    let done = "Copied";
    try { await navigator.clipboard.writeText(button.previousElementSibling.textContent); } catch (e) { done = "Not allowed here"; }
    button.textContent = done;
    setTimeout(() => { button.textContent = "Copy"; }, 2000);
  };
}
