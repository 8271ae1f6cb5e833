/**
 * What comes from agents must not steer the terminal: control characters but tab and line feed are written out, as
 * JSON writes them, so that JSON stays JSON.
 */
export function printable(text: string): string {
  return text.replace(/[^\P{Cc}\t\n]/gu, (char) => `\\u${char.charCodeAt(0).toString(16).padStart(4, "0")}`);
}
