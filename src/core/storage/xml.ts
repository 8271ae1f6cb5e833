/** The text of the first element of a name, escaped as it is. */
export function elementOf(xml: string, name: string): string | undefined {
  return new RegExp(`<${name}>([^<]*)</${name}>`).exec(xml)?.[1];
}

export function unescapeXml(text: string): string {
  const names: Readonly<Record<string, string>> = { lt: "<", gt: ">", quot: '"', apos: "'", amp: "&" };
  return text.replace(/&(?:#(\d+)|#x([\da-f]+)|(\w+));/gi, (all, decimal, hex, name) => {
    if (name !== undefined) return names[name] ?? all;
    return String.fromCodePoint(decimal === undefined ? Number.parseInt(hex, 16) : Number(decimal));
  });
}

/** What the provider of a storage says in an error, in one line without credentials, which some repeat. */
export function sentenceOf(xml: string, secrets: readonly unknown[]): string {
  let [text = ""] = unescapeXml(elementOf(xml, "Message") ?? "").split("\n");
  for (const secret of secrets)
    if (typeof secret === "string" && secret !== "") text = text.replaceAll(secret, "…");
  return text === "" ? "" : `: ${text.slice(0, 300)}`;
}
