import * as v from "valibot";
import { MOST_TOLD } from "./describe-issue.ts";
import { notKnown, shownName } from "./not-known.ts";

/** The parts of valibot's schemas that say what an object or a list has. */
interface SchemaNode {
  readonly type: string;
  readonly key?: string;
  readonly entries?: Readonly<Record<string, v.GenericSchema>>;
  readonly wrapped?: v.GenericSchema;
  readonly item?: v.GenericSchema;
  readonly items?: readonly v.GenericSchema[];
  readonly value?: v.GenericSchema;
  readonly options?: readonly v.GenericSchema[];
}

/** A problem that valibot does not report, at the path of a member. */
export interface MemberProblem {
  readonly path: string;
  readonly problem: string;
}

type Walk = (value: unknown, path: string, found: MemberProblem[]) => void;

/** `null` where a schema accepts anything below it. */
const WALKS = new WeakMap<v.GenericSchema, Walk | null>();

/**
 * Members that a schema does not know, and lists where it expects an object: valibot drops the former and accepts the
 * latter. `v.object` is therefore strict wherever a value comes from outside; what must be ignored is a `v.looseObject`.
 */
export function unknownMembers(schema: v.GenericSchema, value: unknown): readonly MemberProblem[] {
  const walk = walkOf(schema);
  if (walk === null) return NONE;
  const found: MemberProblem[] = [];
  walk(value, "", found);
  return found;
}

const NONE: readonly MemberProblem[] = [];

/** Whether valibot reports what `unknownMembers` reports with the name that was meant. */
export function isUnknownMember({ type, expected }: v.BaseIssue<unknown>): boolean {
  return type === "strict_object" && expected === "never";
}

function walkOf(schema: v.GenericSchema): Walk | null {
  let walk = WALKS.get(schema);
  if (walk === undefined) {
    walk = compile(schema as unknown as SchemaNode);
    WALKS.set(schema, walk);
  }
  return walk;
}

function compile({ type, key, entries, wrapped, item, items, value, options }: SchemaNode): Walk | null {
  if (wrapped) return walkOf(wrapped);
  if (entries) return walkObject(entries, type === "object" || type === "strict_object");
  if (item) return walkList(() => walkOf(item), walkOf(item) !== null);
  if (items) return walkList((at) => (items[at] ? walkOf(items[at]) : null), true);
  if (type === "record") return walkRecord(value ? walkOf(value) : null);
  if (type === "intersect" && options) return walkObject(mergedEntries(options), true);
  if (options?.some((option) => typeof option === "object")) return walkUnion(options, key);
  return null;
}

function walkObject(entries: Readonly<Record<string, v.GenericSchema>>, isClosed: boolean): Walk {
  const names = Object.keys(entries);
  const known = new Set(names);
  const below = names.flatMap((name) => {
    const walk = walkOf(entries[name]!);
    return walk ? [{ name, walk }] : [];
  });
  return (value, path, found) => {
    if (!isMap(value, path, found)) return;
    if (isClosed) {
      for (const name of Object.keys(value)) {
        if (known.has(name)) continue;
        if (found.length >= MOST_TOLD) return;
        found.push({ path: join(path, shownName(name)), problem: notKnown(name, names) });
      }
    }
    for (const { name, walk } of below) walk(value[name], join(path, name), found);
  };
}

function walkRecord(below: Walk | null): Walk {
  return (value, path, found) => {
    if (!isMap(value, path, found) || !below) return;
    for (const [name, one] of Object.entries(value)) below(one, join(path, name), found);
  };
}

function walkList(below: (at: number) => Walk | null, isNeeded: boolean): Walk | null {
  if (!isNeeded) return null;
  return (value, path, found) => {
    if (!Array.isArray(value)) return;
    for (let at = 0; at < value.length; at++) below(at)?.(value[at], join(path, String(at)), found);
  };
}

/** The option that knows most of a value is the one that is meant; a discriminator names it. */
function walkUnion(options: readonly v.GenericSchema[], key: string | undefined): Walk {
  return (value, path, found) => {
    if (typeof value !== "object" || value === null) return;
    let least: MemberProblem[] | undefined;
    for (const option of options) {
      const { entries, item } = option as unknown as SchemaNode;
      if (Array.isArray(value) ? !item : !entries) continue;
      const named = key === undefined ? undefined : entries?.[key];
      if (named && !v.is(named, (value as Record<string, unknown>)[key!])) continue;
      const own: MemberProblem[] = [];
      walkOf(option)?.(value, path, own);
      if (!least || own.length < least.length) least = own;
    }
    if (least) found.push(...least);
  };
}

function mergedEntries(options: readonly v.GenericSchema[]): Readonly<Record<string, v.GenericSchema>> {
  return Object.assign({}, ...options.map((option) => (option as unknown as SchemaNode).entries));
}

function isMap(value: unknown, path: string, found: MemberProblem[]): value is Record<string, unknown> {
  if (typeof value !== "object" || value === null) return false;
  if (!Array.isArray(value)) return true;
  found.push({ path, problem: "must be an object" });
  return false;
}

function join(path: string, name: string): string {
  return path === "" ? name : `${path}.${name}`;
}
