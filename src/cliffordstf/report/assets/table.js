// Tables that sort by a click on a column's head: numbers by value, largest first; text by alphabet; blanks last.

function sortTable(table, column, direction) {
  const body = table.tBodies[0];
  const number = table.tHead.rows[0].cells[column].classList.contains("number");
  const key = (row) => {
    const cell = row.cells[column];
    return number ? Number(cell.dataset.value ?? NaN) : cell.textContent.trim();
  };
  const compare = (a, b) => {
    const [left, right] = [key(a), key(b)];
    if (!number) return direction * left.localeCompare(right, undefined, { numeric: true });
    if (Number.isNaN(left) || Number.isNaN(right)) return Number(Number.isNaN(left)) - Number(Number.isNaN(right));
    return left === right ? 0 : direction * (left - right);
  };
  body.append(...[...body.rows].sort(compare));
}

for (const table of document.querySelectorAll("table.sortable")) {
  [...table.tHead.rows[0].cells].forEach((head, column, heads) => {
    head.querySelector("button").addEventListener("click", () => {
      const first = head.classList.contains("number") ? "descending" : "ascending";
      const other = first === "descending" ? "ascending" : "descending";
      const order = head.getAttribute("aria-sort") === first ? other : first;
      heads.forEach((item) => item.removeAttribute("aria-sort"));
      head.setAttribute("aria-sort", order);
      sortTable(table, column, order === "ascending" ? 1 : -1);
    });
  });
}
document.documentElement.dataset.tables = document.querySelectorAll("table.sortable").length;
