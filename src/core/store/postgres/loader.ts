import { Body } from "../engine/body.ts";
import type { IndexValue } from "../store.ts";
import { type AgedId, absent, entityKey, logKey } from "./attempt.ts";
import type { EntityHead, Heads, LogHead } from "./heads.ts";
import { conditionOf, type Lower, orderOf, Parameters } from "./query-sql.ts";
import { fromColumn, toColumn, toKeyColumn } from "./sql-text.ts";
import { type TableLayout, valueIn } from "./table-layout.ts";

/** The most entries that one statement reads of logs, which may be large, and as how many a whole log counts. */
const ENTRIES = 4096;
const WHOLE = 16;

interface Request<H> {
  readonly id: string;
  readonly resolve: (head: H) => void;
  readonly reject: (error: unknown) => void;
}

/** Runs a statement; one that is `steady` is planned once for all values. */
type Read = (
  text: string,
  values: readonly unknown[],
  options: { readonly steady: boolean },
) => Promise<Record<string, unknown>[]>;

/** An entry of a log, as it is stored. */
export interface EntryRow {
  readonly seq: number;
  readonly body: string;
}

/** Entries of a log's key after a number, and the most of them. */
interface EntriesRequest extends Request<EntryRow[]> {
  readonly after: number;
  readonly limit: number | null;
}

/** The ids of entities by a value of a facet. */
interface IdsRequest extends Request<AgedId[]> {
  readonly value: IndexValue;
}

interface LoaderParts {
  readonly read: Read;
  readonly heads: Heads<EntityHead>;
  readonly logs: Heads<LogHead>;
  /** Quoted. */
  readonly logTable: string;
  readonly lower: Lower;
}

/** Reads entities by id or by a facet, logs, and the ends of logs: all that are asked for at one moment in one statement. */
export class Loader {
  readonly #parts: LoaderParts;
  #ids = new Map<string, IdsRequest[]>();
  #entities = new Map<TableLayout, Request<EntityHead>[]>();
  #ends = new Map<string, Request<LogHead>[]>();
  #entries = new Map<string, EntriesRequest[]>();
  /** Counts what this process has stored: what was read before is not kept in place of it. */
  stored = 0;

  constructor(parts: LoaderParts) {
    this.#parts = parts;
  }

  entity(layout: TableLayout, id: string): Promise<EntityHead> {
    return collect(this.#entities, layout, { id }, (requests) => this.#readEntities(layout, requests));
  }

  /** The ids of entities by a value of a facet, oldest first. */
  ids(layout: TableLayout, field: string, value: IndexValue): Promise<AgedId[]> {
    // Texts are read together; other values are rare.
    const key = [layout.name, field, ...(typeof value === "string" ? [] : [value])].join(" ");
    return collect(this.#ids, key, { id: `${value}`, value }, (requests) =>
      this.#readIds(layout, field, requests),
    );
  }

  /** The last number of a log's key. */
  end(log: string, id: string): Promise<LogHead> {
    return collect(this.#ends, log, { id }, (requests) => this.#readEnds(log, requests));
  }

  /** Entries of a log's key. */
  async entries(log: string, asked: Pick<EntriesRequest, "id" | "after" | "limit">): Promise<EntryRow[]> {
    // One that cannot be a key must not fail the others of its statement.
    toKeyColumn(asked.id);
    return collect(this.#entries, log, asked, async (requests) => {
      await Promise.all(portionsOf(requests).map((portion) => this.#readEntries(log, portion)));
    });
  }

  async #readEntities(layout: TableLayout, requests: readonly Request<EntityHead>[]): Promise<void> {
    const ids = [...new Set(requests.map(({ id }) => id))];
    const known = ids.map((id) => this.#parts.heads.kept(entityKey(layout, id)));
    const { stored } = this;
    // A body that is in memory in this version is not sent again.
    const rows = await this.#parts.read(
      `select t._ver::text as version, case when t._ver is distinct from k.version then t._body end as body
       from unnest($1::text[], $2::bigint[]) with ordinality as k(id, version, n)
       left join ${layout.table} t on t.id = k.id collate "C" order by k.n`,
      [ids.map(toKeyColumn), known.map((head) => head?.version ?? null)],
      { steady: true },
    );
    const found = new Map<string, EntityHead>();
    for (const [at, row] of rows.entries()) {
      const id = ids[at]!;
      const head = headOf(layout, id, row as { version: string | null; body: string | null }, known[at]);
      found.set(id, head);
      if (stored === this.stored || this.#parts.heads.kept(head.key) === undefined)
        this.#parts.heads.keep(head);
    }
    for (const { id, resolve } of requests) resolve(found.get(id)!);
  }

  async #readIds(layout: TableLayout, field: string, requests: readonly IdsRequest[]): Promise<void> {
    const values = [...new Set(requests.map(({ value }) => value))];
    const parameters = new Parameters();
    const asked = { where: { [field]: values.length === 1 ? values[0]! : values } };
    const where = conditionOf(layout, asked, { parameters, lower: this.#parts.lower });
    const age = layout.sqlOf("created_at");
    const rows = await this.#parts.read(
      `select id, ${layout.sqlOf(field).text} as value, ${age.text} as text, ${age.number} as number
       from ${layout.table} where ${where} order by ${orderOf(layout, "created_at")}`,
      parameters.values,
      { steady: false },
    );
    const found = new Map(values.map((value): [IndexValue, AgedId[]] => [value, []]));
    const textIn = (column: unknown) => (column === null ? null : fromColumn(column as string));
    for (const { id, value, text, number } of rows) {
      const ids = values.length === 1 ? found.get(values[0]!) : found.get(textIn(value));
      ids!.push([fromColumn(id as string), valueIn(textIn(text), number as number | null)]);
    }
    for (const { value, resolve } of requests) resolve(found.get(value)!);
  }

  async #readEntries(log: string, requests: readonly EntriesRequest[]): Promise<void> {
    const rows = await this.#parts.read(
      `select k.n::int as n, l.seq, l.body
       from unnest($2::text[], $3::float8[], $4::bigint[]) with ordinality as k(key, after, most, n)
       cross join lateral (
         select e.seq, e.body from ${this.#parts.logTable} e
         where e.log = $1 and e.key = k.key collate "C" and e.seq > k.after order by e.seq limit k.most) l
       order by k.n, l.seq`,
      [
        toColumn(log),
        requests.map(({ id }) => toKeyColumn(id)),
        requests.map(({ after }) => after),
        requests.map(({ limit }) => limit),
      ],
      { steady: true },
    );
    const found = requests.map((): EntryRow[] => []);
    for (const { n, seq, body } of rows as { n: number; seq: number; body: string }[])
      found[n - 1]!.push({ seq, body });
    for (const [at, { resolve }] of requests.entries()) resolve(found[at]!);
  }

  async #readEnds(log: string, requests: readonly Request<LogHead>[]): Promise<void> {
    const ids = [...new Set(requests.map(({ id }) => id))];
    const { stored } = this;
    const rows = await this.#parts.read(
      `select (select coalesce(max(l.seq), 0) from ${this.#parts.logTable} l where l.log = $1 and l.key = k.key collate "C") as last
       from unnest($2::text[]) with ordinality as k(key, n) order by k.n`,
      [toColumn(log), ids.map(toKeyColumn)],
      { steady: true },
    );
    const found = new Map<string, LogHead>();
    for (const [at, { last }] of rows.entries()) {
      const id = ids[at]!;
      const head = { key: logKey(log, id), log, id, last: last as number, by: undefined };
      found.set(id, head);
      if (stored === this.stored || this.#parts.logs.kept(head.key) === undefined)
        this.#parts.logs.keep(head);
    }
    for (const { id, resolve } of requests) resolve(found.get(id)!);
  }
}

function headOf(
  layout: TableLayout,
  id: string,
  { version, body }: { version: string | null; body: string | null },
  known: EntityHead | undefined,
): EntityHead {
  if (version === null) return absent(layout, id);
  if (body === null) return known!;
  return { key: entityKey(layout, id), layout, id, body: Body.from(body), version, by: undefined };
}

/** Parts requests into those of one statement each. */
function portionsOf(requests: readonly EntriesRequest[]): EntriesRequest[][] {
  const portions: EntriesRequest[][] = [];
  let entries = Number.POSITIVE_INFINITY;
  for (const request of requests) {
    const most = request.limit ?? WHOLE;
    entries += most;
    if (entries > ENTRIES) {
      portions.push([]);
      entries = most;
    }
    portions.at(-1)!.push(request);
  }
  return portions;
}

/** Adds a request to those of this moment. */
function collect<K, H, R extends Request<H>>(
  all: Map<K, R[]>,
  key: K,
  asked: Omit<R, "resolve" | "reject">,
  read: (requests: readonly R[]) => Promise<void>,
): Promise<H> {
  return new Promise((resolve, reject) => {
    const request = { ...asked, resolve, reject } as R;
    const known = all.get(key);
    if (known !== undefined) {
      known.push(request);
      return;
    }
    const requests = [request];
    all.set(key, requests);
    queueMicrotask(() => {
      all.delete(key);
      read(requests).catch((error: unknown) => {
        for (const each of requests) each.reject(error);
      });
    });
  });
}
