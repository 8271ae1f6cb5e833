import { ServiceError } from "../../base/errors.ts";
import { freezeFields, toJson } from "../json-value.ts";
import { storageError } from "../storage-error.ts";
import type { Entity, ListQuery, TableSpec } from "../store.ts";
import type { Keyring } from "./keyring.ts";

/** The field that has the rest of a sealed entity or entry, in base64. No entity has one of this name. */
const FIELD = "$sealed";

/** How the JSON of a sealed entity or entry begins. */
const START = `{"${FIELD}":"`;

/** What is stored in place of an entity or of an entry of a log. */
export interface Sealed {
  readonly [FIELD]: string;
  /** Of an entity. */
  readonly id?: string;
  /** Of a job: stores compare it with that of a fence. */
  readonly run_count?: unknown;
}

/** What a store gives back that has lost a row is not a row. */
export function isSealed(value: object | undefined): value is Sealed {
  return value !== undefined && FIELD in value;
}

/** Whether the JSON of an entity or entry is that of a sealed one. */
export function isSealedJson(json: string): boolean {
  return json.startsWith(START);
}

/** Seals an entity for its table. Throws if it is not JSON. */
export function sealEntity(keys: Keyring, table: string, entity: Entity): Sealed & Entity {
  const { id, run_count } = entity as Entity & { readonly run_count?: unknown };
  const json = toJson(entity, `${table} "${id}"`);
  const text = keys.seal(json, [table, id]).toString("base64");
  return { [FIELD]: text, id, ...(run_count !== undefined && { run_count }) };
}

/** The JSON of a sealed entity. */
export function openEntity(keys: Keyring, table: string, { id, [FIELD]: text }: Sealed): string {
  return keys.open(Buffer.from(text, "base64"), [table, id!], `${table} "${id}"`).toString();
}

/** Seals the JSON of an entry of a log. */
export function sealEntry(keys: Keyring, log: string, key: string, seq: number, json: string): Sealed {
  return { [FIELD]: keys.seal(json, [log, key, seq]).toString("base64") };
}

/** The JSON of a sealed entry. */
export function openEntry(
  keys: Keyring,
  log: string,
  key: string,
  seq: number,
  { [FIELD]: text }: Sealed,
): string {
  return keys
    .open(Buffer.from(text, "base64"), [log, key, seq], `Entry ${seq} of log ${log} "${key}"`)
    .toString();
}

/**
 * Opens and seals the entities of one table. What an entity was sealed from is remembered while it is used: a store asks
 * for the index values of what it is given.
 */
export class SealedTable<T extends Entity> {
  readonly name: string;
  /** As a store keeps it: index values of the content, and of the text only what is readable anyway. */
  readonly spec: TableSpec;
  readonly #keys: Keyring;
  readonly #isReadable: boolean;
  readonly #opened = new WeakMap<object, T>();

  constructor(spec: TableSpec<T>, keys: Keyring) {
    this.name = spec.name;
    this.#keys = keys;
    this.#isReadable = spec.readable === true;
    const { index, text } = spec;
    const view = (stored: Entity) => this.view(stored);
    const names = (stored: Entity): string =>
      spec.readable === "name" ? `${stored.id}\n${index(view(stored)).name}` : "";
    const isSealing = keys.sealsWith !== undefined;
    this.spec = {
      ...(spec as unknown as TableSpec),
      // On the path of every job, also of those without keys: each call counts.
      index: (stored) => index(FIELD in stored ? view(stored) : (stored as T)),
      ...(text && {
        text: isSealing ? names : (stored) => text(FIELD in stored ? view(stored) : (stored as T)),
      }),
    };
  }

  /** Rejects a search that would find nothing, as the text is not stored. */
  refuseSearch({ search }: ListQuery = {}): void {
    const { text, readable } = this.spec;
    if (!search || !text || readable === "name" || this.#keys.sealsWith === undefined) return;
    throw new ServiceError(
      "invalid_request",
      `An encrypted store cannot be searched for rows of ${this.name}`,
      {
        detail:
          "Search finds jobs and cases by their ids and names. Leave the search empty, and use the filters.",
      },
    );
  }

  /** What is stored of an entity. */
  seal(entity: T): Entity {
    if (this.#isReadable || this.#keys.sealsWith === undefined) return entity;
    const sealed = sealEntity(this.#keys, this.name, entity);
    this.#opened.set(sealed, entity);
    return sealed;
  }

  /** The entity of what is stored, which the caller owns. */
  open(stored: Entity): T {
    if (!isSealed(stored)) return stored as T;
    const entity = JSON.parse(openEntity(this.#keys, this.name, stored)) as T & { run_count?: unknown };
    if (entity.run_count === stored.run_count) return entity;
    throw storageError(
      `${this.name} "${stored.id}" is damaged: its run_count is not the one that was encrypted`,
      "Restore it from a backup.",
    );
  }

  /** The entity of what is stored and frozen, for those who share it. */
  view(stored: Readonly<Entity>): T {
    if (!isSealed(stored)) return stored as T;
    const known = this.#opened.get(stored);
    if (known !== undefined) return known;
    const opened = Object.freeze(freezeFields(this.open(stored)));
    this.#opened.set(stored, opened);
    return opened;
  }
}

/** Tables as a store keeps them that may be encrypted. */
export function sealedSpecs(specs: readonly TableSpec[], keys: Keyring): TableSpec[] {
  return specs.map((spec) => new SealedTable(spec, keys).spec);
}
