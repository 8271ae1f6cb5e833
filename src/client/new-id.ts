/** 128 random bits: `randomUUID` is missing in pages without https. */
export function newId(kind: string): string {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return `${kind}-${Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("")}`;
}
