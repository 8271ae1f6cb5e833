type Rows = Record<string, unknown>[];
type Read = (text: string, values: readonly unknown[]) => Promise<Rows>;

/** Milliseconds that a read waits for others to share a statement with. */
const PATIENCE = 1000;

interface Request {
  readonly text: string;
  readonly values: readonly unknown[];
  readonly resolve: (rows: Rows) => void;
  readonly reject: (error: unknown) => void;
}

/**
 * Reads that are made again and again, whether there is something to do or not: all that are asked for at one moment,
 * and those that wait for company, are one statement, and see one moment of the database.
 */
export class JoinedReads {
  readonly #read: Read;
  #waiting: Request[] = [];
  #timer: NodeJS.Timeout | undefined;
  #isLeaving = false;

  constructor(read: Read) {
    this.#read = read;
  }

  /** Reads `now`, or `soon`: with the next ones that are read now, in a second at the latest. */
  query(text: string, values: readonly unknown[], when: "now" | "soon"): Promise<Rows> {
    return new Promise((resolve, reject) => {
      this.#waiting.push({ text, values, resolve, reject });
      if (when === "soon") this.#timer ??= setTimeout(() => this.#send(), PATIENCE).unref();
      else if (!this.#isLeaving) {
        this.#isLeaving = true;
        // Others of this moment join it.
        setImmediate(() => this.#send());
      }
    });
  }

  /** Sends what waits: once the store is closed, it is refused. */
  close(): void {
    this.#send();
  }

  #send(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    this.#isLeaving = false;
    const requests = this.#waiting.splice(0);
    if (requests.length === 1) void this.#alone(requests[0]!);
    else if (requests.length > 1) void this.#together(requests);
  }

  async #alone({ text, values, resolve, reject }: Request): Promise<void> {
    await this.#read(text, values).then(resolve, reject);
  }

  async #together(requests: readonly Request[]): Promise<void> {
    const values: unknown[] = [];
    const parts = requests.map(({ text, values: own }, at) => {
      const before = values.length;
      values.push(...own);
      const moved = text.replace(/\$(\d+)/g, (_, number) => `$${before + Number(number)}`);
      return `(select coalesce(json_agg(q), '[]') from (${moved}) q) as q${at}`;
    });
    let row: Record<string, unknown>;
    try {
      row = (await this.#read(`select ${parts.join(", ")}`, values))[0]!;
    } catch {
      // One that is refused, or that waits for a lock, must not fail the others.
      await Promise.all(requests.map((request) => this.#alone(request)));
      return;
    }
    for (const [at, { resolve }] of requests.entries()) resolve((row[`q${at}`] as Rows).map(toRow));
  }
}

/** JSON has no infinities: it has them as text in the column of numbers. */
function toRow(row: Record<string, unknown>): Record<string, unknown> {
  return typeof row.number === "string" ? { ...row, number: Number(row.number) } : row;
}
