// The places where a line of a long text may end, as the function Breaks of package apidoc.

const runMin = 3, runMax = 16; // characters between two places
const punctuation = /[/.:,;?&=\-_@+#%]/;

// breakable returns the nodes of a text with its places.
export function breakable(text) {
  const nodes = [];
  let part = "", run = 0, last = " ";
  for (const character of text) {
    const inNumber = /\d/.test(character) && /[.,:]/.test(last);
    const after = punctuation.test(last) && !punctuation.test(character) && !inNumber;
    if (((after && run >= runMin) || run >= runMax) && !/[\p{M}\s]/u.test(character)) {
      nodes.push(part, document.createElement("wbr"));
      part = "";
      run = 0;
    }
    part += character;
    run = /\s/.test(character) ? 0 : run + 1;
    last = character;
  }
  return [...nodes, part];
}
