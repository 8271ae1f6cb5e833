import type { StartableAgent } from "../core/agents/run-context.ts";

/** Agents by which a client is typed: one agent, a list of agents, or an object or module that has some. */
export type AgentsIn<Source> = Source extends StartableAgent
  ? Source
  : Source extends readonly (infer One)[]
    ? Extract<One, StartableAgent>
    : Extract<Source[keyof Source], StartableAgent>;

/** Slugs of these agents; any text where a name is not known to the compiler. */
export type SlugOf<Agents extends StartableAgent> =
  Agents extends StartableAgent<unknown, unknown, infer Name> ? Slug<Name> : never;

/** The agent that has a slug; one whose name is exactly known comes first. */
export type AgentAt<Agents extends StartableAgent, At extends string> = (
  Agents extends unknown
    ? string extends SlugOf<Agents>
      ? never
      : At extends SlugOf<Agents>
        ? Agents
        : never
    : never
) extends infer Exact
  ? [Exact] extends [never]
    ? Agents
    : Extract<Exact, StartableAgent>
  : never;

/** What a job of an agent returns, as JSON has it: nothing becomes `null`. */
export type JsonResult<Agent extends StartableAgent> =
  Agent extends StartableAgent<unknown, infer Result>
    ? unknown extends Result
      ? unknown
      : Result extends void
        ? null
        : Result
    : unknown;

/** The slug of a name, as the service makes it; any text for a name with characters beyond ASCII. */
export type Slug<Name extends string, Done extends string = ""> = string extends Name
  ? string
  : Name extends `${infer One}${infer More}`
    ? "abcdefghijklmnopqrstuvwxyz0123456789" extends `${string}${Lowercase<One>}${string}`
      ? Slug<More, `${Done}${Lowercase<One>}`>
      : " \t\n!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~" extends `${string}${One}${string}`
        ? Slug<More, Done extends "" | `${string}-` ? Done : `${Done}-`>
        : string
    : Done extends `${infer Cut}-`
      ? Cut
      : Done;
