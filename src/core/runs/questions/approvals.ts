import { type Actor, type Caller, nameOf } from "../../audit/caller.ts";
import { ServiceError } from "../../base/errors.ts";
import { isRecord } from "../../base/is-record.ts";
import type { StoredCase } from "../../models/case.ts";
import type { Approval, Question } from "../../models/question.ts";

/** Who answers, and what. */
export interface GivenApproval {
  readonly actor: Actor | undefined;
  readonly answer: Record<string, unknown>;
  readonly message: string | null;
  /** ISO 8601. */
  readonly at: string;
  /** Whether only people count whom an identity provider vouches for. */
  readonly mustBeProven: boolean;
}

/**
 * The answers that agree, with this one. A different answer takes the place of those before it: people agree only on the
 * same. Throws where this person has given the same answer already.
 */
export function addApproval(item: StoredCase, question: Question, given: GivenApproval): Approval[] {
  const { actor, mustBeProven, ...rest } = given;
  const { proven = undefined, voucher = undefined } = typeof actor === "object" ? actor : {};
  if (mustBeProven && proven === undefined) throw notProven(item);
  const person = personOf(item, actor);
  const one: Approval = {
    ...{ person, by: nameOf(actor ?? "anyone"), ...rest },
    ...(proven !== undefined && { proven }),
    ...(voucher !== undefined && { vouched_by: voucher }),
  };
  // Answers from before people signed in are by names that somebody typed.
  const before = (question.approvals ?? []).filter((answer) => !mustBeProven || answer.proven !== undefined);
  if (!before[0] || toText(before[0].answer) !== toText(one.answer)) return [one];
  const own = before.find(({ person }) => person === one.person);
  const same = own ? undefined : before.find((other) => couldBeSame(other, one));
  if (same) throw madeByOne(item, same);
  if (!own) return [...before, one];
  throw new ServiceError(
    "invalid_transition",
    `${own.by} has already given this answer to case "${item.id}"`,
    {
      detail: `${before.length} of ${question.approvers} people agree. Another person must give the same answer.`,
    },
  );
}

/** Who makes a link can use it: its maker counts with the person that it was made for, and makers of several once. */
function couldBeSame(one: Approval, other: Approval): boolean {
  const people = [one.person, one.vouched_by];
  return [other.person, other.vouched_by].some((id) => id !== undefined && people.includes(id));
}

function madeByOne(item: StoredCase, { by }: Approval): ServiceError {
  return new ServiceError(
    "invalid_transition",
    `This and the answer of ${by} to case "${item.id}" could be of one person`,
    {
      detail:
        "Who makes a link for somebody could answer with it. Sign in as yourself, or answer by a link that somebody else has made.",
    },
  );
}

function notProven(item: StoredCase): ServiceError {
  return new ServiceError(
    "forbidden",
    `Case "${item.id}" asks several people, and only people who sign in count`,
    {
      detail:
        "Sign in as yourself: keys, links, tokens and names that were typed could all be the same person. Who vouches for people is in the option access.signIn.",
    },
  );
}

/**
 * What tells people apart: the person, where a provider vouches for one, else the name: not the session, as a person may have several. All keys are one: a program has them, and
 * who makes keys could be as many people as they like.
 */
function personOf(item: StoredCase, actor: Actor | undefined): string {
  if (typeof actor === "object" && actor.proven !== undefined && actor.access !== undefined)
    return actor.access;
  const name = typeof actor === "object" ? nameOfPerson(actor) : actor;
  const person = name?.trim().toLowerCase();
  if (person) return person;
  throw new ServiceError("forbidden", `Case "${item.id}" asks several people, so an answer needs a name`, {
    detail: "Sign in with your name, or answer by a link that was made for you.",
  });
}

function nameOfPerson(actor: Caller): string | undefined {
  if (actor.kind === "key") return ALL_KEYS;
  return actor.name ?? actor.says ?? (actor.kind === "system" ? nameOf(actor) : undefined);
}

/** As answers with the API key are stored since there are approvals. */
const ALL_KEYS = nameOf({ kind: "key" });

/** The same for the same values, in whatever order they are. */
function toText(value: unknown): string {
  return JSON.stringify(value, (_, one: unknown) =>
    isRecord(one) ? Object.fromEntries(Object.entries(one).sort(([a], [b]) => (a < b ? -1 : 1))) : one,
  );
}
