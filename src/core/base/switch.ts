/** What a switch from outside says: `true` or `false`, nothing else. `undefined` is to be refused by its reader. */
export function readSwitch(text: string): boolean | undefined {
  return text === "true" ? true : text === "false" ? false : undefined;
}
