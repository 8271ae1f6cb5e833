import { Call, type CallIdentity, type CallKind } from "./call.ts";

/** The calls of one kind and name in a scope. */
export class SameCalls {
  /** By their numbers; there may be gaps. */
  readonly calls: (Call | undefined)[] = [];
  /** How many the handler has made in this run. */
  made = 0;
  /** How many of these have not been answered. */
  open = 0;
}

/** What is recorded of the calls of a job, or of one of its cases. */
export class ScopeRecord {
  readonly caseId: string | undefined;
  readonly #same = new Map<string, SameCalls>();
  readonly #byPosition = new Map<number, Call>();
  #next = 0;
  #nextCase = 0;

  constructor(caseId: string | undefined) {
    this.caseId = caseId;
  }

  /** The calls of a kind and name, or of a kind and key. */
  same(kind: CallKind, name: string, key: string | undefined): SameCalls {
    const id = key === undefined ? `${kind} ${name}` : `${kind}=${key}`;
    let known = this.#same.get(id);
    if (!known) {
      known = new SameCalls();
      this.#same.set(id, known);
    }
    return known;
  }

  /** The call that an entry of the log belongs to. */
  recorded(identity: Omit<CallIdentity, "caseId">): Call {
    const { calls } = this.same(identity.kind, identity.name, identity.key);
    const known = calls[identity.n];
    if (known) return known;
    const call = new Call({ ...identity, caseId: this.caseId });
    calls[identity.n] = call;
    return this.#add(call);
  }

  /** A call of which nothing is recorded. */
  begin(kind: CallKind, name: string, key: string | undefined, n: number): Call {
    const position = kind === "open_case" ? this.#nextCase++ : this.#next++;
    return new Call({ caseId: this.caseId, kind, name, key, n, position });
  }

  at(position: number, kind: CallKind): Call | undefined {
    return this.#byPosition.get(placeOf(position, kind));
  }

  all(): Call[] {
    return [...this.#byPosition.values()];
  }

  #add(call: Call): Call {
    this.#byPosition.set(placeOf(call.position, call.kind), call);
    if (call.kind === "open_case") this.#nextCase = Math.max(this.#nextCase, call.position + 1);
    else this.#next = Math.max(this.#next, call.position + 1);
    return call;
  }
}

/** Opened cases have a count of their own. */
function placeOf(position: number, kind: CallKind): number {
  return kind === "open_case" ? -1 - position : position;
}
