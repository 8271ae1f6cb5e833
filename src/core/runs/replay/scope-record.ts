import { Call, type CallKind, type CallNames, SameCalls } from "./call.ts";

/** A number that is not known. */
export const UNKNOWN = -1;

/** What is recorded of the calls of a job, or of one of its cases. */
export class ScopeRecord {
  readonly caseId: string | undefined;
  readonly #byName = new Map<CallKind, Map<string, SameCalls>>();
  /** Of most jobs, no call has a key. */
  #byKey: Map<CallKind, Map<string, SameCalls>> | undefined;
  /** Calls that were looked for by their position. */
  #byPosition: Map<number, Call> | undefined;
  /** Recorded questions, in their order. */
  readonly #asked: Call[] = [];
  /** Recorded reads, by their numbers once one was searched for; those before `#nextRead` are past. */
  readonly #reads: Call[] = [];
  #nextRead: number | undefined;
  /** The last line up to which the handler had received results when it read what may have been in a step's function. */
  unplacedRead = -1;
  /** Whether an earlier run has such a read. */
  hasUnplacedRead = false;
  /** By position, if version 0.1.0 skipped positions: these calls cannot be identified. */
  #old: Map<number, Call> | undefined;
  /** How many calls the handler has made in this run; opened cases are not counted. */
  #made = 0;
  #next = 0;
  #nextCase = 0;

  constructor(caseId: string | undefined) {
    this.caseId = caseId;
  }

  /** The calls of a kind and name, or of a kind and key. */
  same(kind: CallKind, name: string, key: string | undefined): SameCalls {
    if (key !== undefined) this.#byKey ??= new Map();
    const all = key === undefined ? this.#byName : this.#byKey!;
    let ofKind = all.get(kind);
    if (!ofKind) {
      ofKind = new Map();
      all.set(kind, ofKind);
    }
    const id = key ?? name;
    let known = ofKind.get(id);
    if (!known) {
      known = new SameCalls();
      ofKind.set(id, known);
    }
    return known;
  }

  /** The call that an entry of the log belongs to. */
  recorded(kind: CallKind, entry: CallNames, n: number): Call {
    const same = this.same(kind, entry.name, entry.key);
    const known = this.#oldAt(entry.position, kind, entry, n) ?? same.at(n);
    if (known) return known;
    const call = new Call(this.caseId, kind, entry, n);
    call.same = same;
    if (n !== UNKNOWN) same.set(n, call);
    if (kind === "ask") this.#asked.push(call);
    if (kind === "read") this.#reads.push(call);
    if (kind !== "open_case") this.#old?.set(entry.position, call);
    if (kind === "open_case") this.#nextCase = Math.max(this.#nextCase, entry.position + 1);
    else this.#next = Math.max(this.#next, entry.position + 1);
    return call;
  }

  /** From now on calls are found by their position first, as version 0.1.0 did. */
  findByPosition(): void {
    this.#old ??= new Map();
  }

  /** The next call that the handler makes, and what is recorded of it. */
  next(kind: CallKind, names: { readonly name: string; readonly key: string | undefined }, n: number): Call {
    const at = kind === "open_case" ? UNKNOWN : this.#made++;
    const old = this.#oldAt(at, kind, names, n);
    if (old) old.n = n;
    const known = old ?? this.same(kind, names.name, names.key).at(n);
    const call = kind === "ask" ? this.#question(known, names, n) : known;
    return call ?? this.#begin(kind, names, { n, at });
  }

  /**
   * The recorded read that the handler makes now, after it was given the ends up to a line; the next one that it is given is
   * at line `next`. In a turn it is the next one of that turn, so that code with more reads or fewer elsewhere finds the
   * same. The line of an end is that of its entry, or a later one that was stored with it.
   */
  recordedRead(line: number, next: number, isOutside: boolean): Call | undefined {
    const reads = this.#reads;
    if (this.#nextRead === undefined) {
      reads.sort((a, b) => a.n - b.n);
      this.#nextRead = 0;
    }
    const isPast = ({ isIssued, made, isOutside: wasOutside }: Call) =>
      isIssued || made === undefined || (!wasOutside && made < line);
    while (this.#nextRead < reads.length && isPast(reads[this.#nextRead]!)) this.#nextRead++;
    /** Where what it waited for before was at hand in one run only, it was in a turn there. */
    let other: Call | undefined;
    for (let at = this.#nextRead; at < reads.length; at++) {
      const read = reads[at]!;
      if (isPast(read)) continue;
      const wasOutside = read.isOutside === true;
      if (wasOutside === isOutside && (isOutside || read.made! < next)) return read;
      if (wasOutside !== isOutside) other ??= read;
    }
    return other;
  }

  /** A read of which nothing is recorded. */
  newRead(name: string): Call {
    const same = this.same("read", name, undefined);
    const n = same.next;
    const call = new Call(this.caseId, "read", { name, position: -1 - n }, n);
    same.set(n, call);
    return call;
  }

  /** A line of the log has another name for a recorded question than those before. */
  rename(call: Call, names: Omit<CallNames, "position">, n: number): void {
    if (call.same!.at(call.n) === call) call.same!.set(call.n, undefined);
    this.#call(call, names, n);
  }

  /** Has a question asked again: its answer was taken back. Without a `position`, at the next one. */
  askAgain(call: Call, position: number = this.#next): void {
    this.#next = Math.max(this.#next, position + 1);
    call.position = position;
    call.answer = undefined;
    call.begun = undefined;
    call.tries = undefined;
    call.entry = undefined;
    this.place(call);
  }

  /** A call of which nothing is recorded; one of version 0.1.0 that left no line had the position `at`. */
  #begin(
    kind: CallKind,
    names: { readonly name: string; readonly key: string | undefined },
    { n, at }: { readonly n: number; readonly at: number },
  ): Call {
    const isLeftOut = this.#old !== undefined && at !== UNKNOWN && at < this.#next && !this.#old.has(at);
    const { name, key } = names;
    const next = () => (kind === "open_case" ? this.#nextCase++ : this.#next++);
    return new Call(this.caseId, kind, { name, key, position: isLeftOut ? at : next() }, n);
  }

  /**
   * The recorded question that the handler asks, in other words or not: `known` by its name; else one without a name that
   * has the same text, or whose text is the name now; else the only one that is left, if nobody has answered it.
   */
  #question(known: Call | undefined, names: Omit<CallNames, "position">, n: number): Call | undefined {
    if (known && !known.isIssued) {
      // What came before it was done again, and it may ask for something else.
      if (known.isLoose && known.name !== names.name)
        known.note = "What it asks has changed since it was answered";
      known.name = names.name;
      return known;
    }
    const { name, key } = names;
    const left = this.#asked.filter(({ isIssued }) => !isIssued);
    const isOpen = ({ answer, isSettled }: Call) => answer === undefined && !isSettled;
    const call =
      left.find((one) => one.key === undefined && (one.name === name || one.name === key)) ??
      (left.length === 1 && isOpen(left[0]!) ? left[0] : undefined);
    if (!call) return undefined;
    call.isRenamed = call.key !== key || call.name !== name;
    // It was the next one of its former name, too.
    if (call.isRenamed) call.same!.made++;
    this.#call(call, names, n);
    return call;
  }

  #call(call: Call, { name, key }: Omit<CallNames, "position">, n: number): void {
    call.same = this.same(call.kind, name, key);
    call.same.set(n, call);
    Object.assign(call, { name, key, n });
  }

  #oldAt(
    at: number,
    kind: CallKind,
    { name, key }: Omit<CallNames, "position">,
    n: number,
  ): Call | undefined {
    const old = this.#old?.get(at);
    const isSame = old?.kind === kind && old.name === name && old.key === key;
    return isSame && (old.isOld || old.n === n) ? old : undefined;
  }

  /** Lets a call be found by its position. */
  place(call: Call): void {
    this.#byPosition ??= new Map();
    this.#byPosition.set(placeOf(call.position, call.kind), call);
  }

  at(position: number, kind: CallKind): Call | undefined {
    return this.#byPosition?.get(placeOf(position, kind));
  }
}

/** Opened cases have a count of their own. */
function placeOf(position: number, kind: CallKind): number {
  return kind === "open_case" ? -1 - position : position;
}
