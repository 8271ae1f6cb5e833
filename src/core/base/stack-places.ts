/** The folder of this package's code. */
const OWN = new URL("../../", import.meta.url).href;

/** Files with line and column in a stack trace, of the program and what it uses, the innermost first. */
export function placesIn(stack: string): string[] {
  const lines = stack.split("\n").slice(1);
  const places = lines.map((line) => /\(?((?:file:\/\/|\/|[A-Za-z]:\\)[^)]*)\)?$/.exec(line.trim())?.[1]);
  return places.filter((place) => place !== undefined);
}

/** Whether a place is in this package. */
export function isOwnPlace(place: string): boolean {
  return place.startsWith(OWN) || `file://${place}`.startsWith(OWN);
}
