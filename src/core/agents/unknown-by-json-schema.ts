import type { StandardSchemaV1 } from "@standard-schema/spec";
import { MOST_TOLD } from "../base/describe-issue.ts";
import { notKnown, shownName } from "../base/not-known.ts";
import type { MemberProblem } from "../base/unknown-members.ts";
import { ownJsonSchema } from "./own-json-schema.ts";
import type { JsonSchema } from "./read-json-schema.ts";

/** What JSON Schema says about the members of an object and the entries of a list. */
interface Node extends Omit<JsonSchema, "properties" | "items" | "anyOf" | "oneOf" | "allOf"> {
  readonly properties?: Readonly<Record<string, Node>>;
  readonly additionalProperties?: boolean | Node;
  readonly patternProperties?: object;
  readonly items?: boolean | Node;
  readonly prefixItems?: readonly Node[];
  readonly anyOf?: readonly Node[];
  readonly oneOf?: readonly Node[];
  readonly allOf?: readonly Node[];
}

/** One of the forms that a node allows. */
interface Form {
  readonly properties: Readonly<Record<string, Node>>;
  /** Whether its properties are the only ones. */
  readonly isClosed: boolean;
  readonly isOpen: boolean;
  /** Schema of members that are not among its properties. */
  readonly others?: Node | undefined;
  readonly entries: (at: number) => Node | undefined;
}

/** By schema; `null` where its library has no JSON Schema for it. */
const ROOTS = new WeakMap<StandardSchemaV1, Node | null>();
const NONE: readonly MemberProblem[] = [];

/** Members that the JSON Schema of a schema does not have. A schema that has none decides itself. */
export function unknownByJsonSchema(schema: StandardSchemaV1, value: unknown): readonly MemberProblem[] {
  const root = rootOf(schema);
  if (root === null) return NONE;
  const found: MemberProblem[] = [];
  walk({ root, node: root, path: "" }, value, found);
  return found;
}

function rootOf(schema: StandardSchemaV1): Node | null {
  let root = ROOTS.get(schema);
  if (root === undefined) {
    root = (ownJsonSchema(schema, "input") as Node | undefined) ?? null;
    ROOTS.set(schema, root);
  }
  return root;
}

interface Place {
  readonly root: Node;
  readonly node: Node;
  readonly path: string;
}

function walk(place: Place, value: unknown, found: MemberProblem[]): void {
  if (typeof value !== "object" || value === null) return;
  // The form that knows most of a value is the one that is meant.
  let least: MemberProblem[] | undefined;
  for (const form of formsOf(place.node, place.root)) {
    const own: MemberProblem[] = [];
    if (Array.isArray(value)) walkList(form, place, value, own);
    else walkObject(form, place, value as Readonly<Record<string, unknown>>, own);
    if (!least || own.length < least.length) least = own;
  }
  if (least) found.push(...least);
}

function walkObject(
  { properties, isClosed, others }: Form,
  { root, path }: Place,
  value: Readonly<Record<string, unknown>>,
  found: MemberProblem[],
): void {
  const names = Object.keys(properties);
  for (const [name, one] of Object.entries(value)) {
    const at = path === "" ? shownName(name) : `${path}.${shownName(name)}`;
    const node = Object.hasOwn(properties, name) ? properties[name] : others;
    if (node) walk({ root, node, path: at }, one, found);
    else if (isClosed && found.length < MOST_TOLD) found.push({ path: at, problem: notKnown(name, names) });
  }
}

function walkList(
  { entries }: Form,
  { root, path }: Place,
  value: readonly unknown[],
  found: MemberProblem[],
): void {
  for (const [at, one] of value.entries()) {
    const node = entries(at);
    if (node) walk({ root, node, path: path === "" ? String(at) : `${path}.${at}` }, one, found);
  }
}

/** More than these are not distinguished. */
const MOST_FORMS = 100;

function formsOf(node: Node, root: Node, seen: readonly Node[] = []): readonly Form[] {
  if (seen.includes(node)) return [];
  const inside = [...seen, node];
  let forms: readonly Form[] = [ownForm(node)];
  const with_ = (others: readonly Form[]): void => {
    forms = forms.flatMap((form) => others.map((other) => merged(form, other))).slice(0, MOST_FORMS);
  };
  if (node.$ref !== undefined) {
    const target = partOf(root, node.$ref) as Node | undefined;
    if (target) with_(formsOf(target, root, inside));
  }
  for (const one of node.allOf ?? []) with_(formsOf(one, root, inside));
  for (const options of [node.anyOf, node.oneOf])
    if (options) with_(options.flatMap((one) => formsOf(one, root, inside)));
  return forms;
}

function ownForm({
  properties,
  additionalProperties,
  patternProperties,
  items,
  prefixItems = [],
}: Node): Form {
  const others = typeof additionalProperties === "object" ? additionalProperties : undefined;
  const isOpen = others !== undefined || additionalProperties === true || patternProperties !== undefined;
  const rest = typeof items === "object" ? items : undefined;
  return {
    properties: properties ?? {},
    isClosed: !isOpen && (properties !== undefined || additionalProperties === false),
    isOpen,
    others,
    entries: (at) => prefixItems[at] ?? rest,
  };
}

function merged(a: Form, b: Form): Form {
  const isOpen = a.isOpen || b.isOpen;
  return {
    properties: { ...a.properties, ...b.properties },
    isClosed: !isOpen && (a.isClosed || b.isClosed),
    isOpen,
    others: a.others ?? b.others,
    entries: (at) => a.entries(at) ?? b.entries(at),
  };
}

/** The part of a document that a reference such as `#/$defs/Address` names. */
export function partOf(root: object, reference: string): object | undefined {
  if (!reference.startsWith("#")) return undefined;
  let at: unknown = root;
  for (const part of reference.slice(1).split("/").slice(1)) {
    const key = decodeURIComponent(part).replaceAll("~1", "/").replaceAll("~0", "~");
    at = (at as Record<string, unknown> | undefined)?.[key];
  }
  return typeof at === "object" && at !== null ? at : undefined;
}
