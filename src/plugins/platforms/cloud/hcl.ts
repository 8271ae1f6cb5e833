/** A value of Terraform's language. */
export type HclValue =
  | string
  | number
  | boolean
  | HclReference
  | readonly HclValue[]
  | { readonly [key: string]: HclValue };

/** An attribute of another block, such as `aws_apprunner_service.service.arn`. */
export class HclReference {
  readonly path: string;

  constructor(path: string) {
    this.path = path;
  }
}

/** A block: its attributes, then the blocks in it. What is undefined is not written. */
export interface HclBlock {
  /** Such as `resource "google_cloud_run_v2_service" "service"`. */
  readonly type: string;
  readonly attributes?: Readonly<Record<string, HclValue | undefined>>;
  readonly blocks?: readonly (HclBlock | undefined)[];
}

/**
 * A block of an object as a cloud describes it: names in Terraform's spelling, objects as blocks in it, a list of objects as a
 * block each. What is in `maps` is an attribute whose keys stay as they are.
 */
export function blockOf(type: string, described: object, maps: readonly string[] = []): HclBlock {
  const attributes: Record<string, HclValue> = {};
  const blocks: HclBlock[] = [];
  for (const [key, value] of Object.entries(described)) {
    const name = key.replaceAll(/(?!^)[A-Z]/g, (letter) => `_${letter}`).toLowerCase();
    const parts = Array.isArray(value) ? value : [value];
    if (!maps.includes(key) && parts.every(isObject))
      blocks.push(...parts.map((part) => blockOf(name, part, maps)));
    else if (value !== undefined) attributes[name] = value as HclValue;
  }
  return { type, attributes, blocks };
}

function isObject(value: unknown): value is object {
  return typeof value === "object" && value !== null && !(value instanceof HclReference);
}

/** Blocks as text, laid out as `terraform fmt` does. */
export function hcl(blocks: readonly HclBlock[]): string {
  return `${blocks.map((block) => lines(block, "").join("\n")).join("\n\n")}\n`;
}

function lines({ type, attributes = {}, blocks = [] }: HclBlock, indent: string): string[] {
  const inner = `${indent}  `;
  const given = Object.entries(attributes).filter(
    (entry): entry is [string, HclValue] => entry[1] !== undefined,
  );
  const simple = given.filter(([, value]) => !isMap(value));
  const maps = given.filter(([, value]) => isMap(value));
  const parts = [
    ...(simple.length > 0 ? [aligned(simple, inner)] : []),
    ...maps.map(([name, value]) => [`${inner}${name} = ${text(value, inner)}`]),
    ...blocks.flatMap((block) => (block === undefined ? [] : [lines(block, inner)])),
  ];
  if (parts.length === 0) return [`${indent}${type} {}`];
  const body = parts.flatMap((part, index) => (index === 0 ? part : ["", ...part]));
  return [`${indent}${type} {`, ...body, `${indent}}`];
}

function isMap(value: HclValue): value is { readonly [key: string]: HclValue } {
  return typeof value === "object" && !Array.isArray(value) && !(value instanceof HclReference);
}

function aligned(entries: readonly (readonly [string, HclValue])[], indent: string): string[] {
  const width = Math.max(...entries.map(([name]) => name.length));
  return entries.map(([name, value]) => `${indent}${name.padEnd(width)} = ${text(value, indent)}`);
}

function text(value: HclValue, indent: string): string {
  if (typeof value === "string") return quoted(value);
  if (value instanceof HclReference) return value.path;
  if (typeof value !== "object") return String(value);
  if (!isMap(value)) return `[${value.map((one) => text(one, indent)).join(", ")}]`;
  const entries = Object.entries(value).map(([name, one]) => [quoted(name), one] as const);
  if (entries.length === 0) return "{}";
  return ["{", ...aligned(entries, `${indent}  `), `${indent}}`].join("\n");
}

/** A text in which Terraform expands nothing. */
function quoted(value: string): string {
  return JSON.stringify(value).replaceAll(/[$%](?=\{)/g, (sign) => sign + sign);
}

/** The provider that a file needs. */
export function requiredProvider(name: string, source: string, version: string): HclBlock {
  return {
    type: "terraform",
    blocks: [{ type: "required_providers", attributes: { [name]: { source, version } } }],
  };
}
