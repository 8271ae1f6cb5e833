/** How many instances run, for people: "1", "1–3", or "0 or more" without a limit. */
export function instancesText(least: number | undefined, most: number | undefined): string {
  if (most === undefined) return `${least ?? 0} or more`;
  return least === most ? String(most) : `${least ?? 0}–${most}`;
}
