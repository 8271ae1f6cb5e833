import type { StartArguments, StartableAgent } from "../core/agents/run-context.ts";

/** Agents by which a client is typed: one agent, a list of agents, or an object or module that has some. */
export type AgentsIn<Source> = Source extends StartableAgent
  ? Source
  : Source extends readonly (infer One)[]
    ? Extract<One, StartableAgent>
    : Extract<Source[keyof Source], StartableAgent>;

/** Slugs of these agents; any text where a name is not known to the compiler. */
export type SlugOf<Agents extends StartableAgent> =
  Agents extends StartableAgent<unknown, unknown, infer Name> ? Slug<Name> : never;

/** The agent that has a slug; the one whose name is exactly known comes first. */
export type AgentAt<Agents extends StartableAgent, At extends string> = [Known<Agents, At>] extends [never]
  ? Agents
  : Known<Agents, At>;

type Known<Agents extends StartableAgent, At extends string> = Agents extends unknown
  ? string extends SlugOf<Agents>
    ? never
    : At extends SlugOf<Agents>
      ? Agents
      : never
  : never;

/** What a job of an agent returns, as JSON has it: nothing becomes `null`. */
export type JsonResult<Agent extends StartableAgent> =
  Agent extends StartableAgent<unknown, infer Result> ? OrNull<Result> : unknown;

type OrNull<Value> = unknown extends Value ? Value : Value extends void ? null : Value;

/** Arguments after the slug: fields as their schema takes them, which may be omitted where none is required. */
export type FieldsOf<Agent extends StartableAgent, Options> = StartArguments<Agent, Options>;

/** The slug of a name, as the service makes it; any text for a name with characters beyond ASCII. */
export type Slug<Name extends string> = string extends Name ? string : Joined<Lowercase<Name>>;

type Joined<Rest extends string, Done extends string = ""> = Rest extends `${infer One}${infer More}`
  ? One extends Letter
    ? Joined<More, `${Done}${One}`>
    : One extends Separator
      ? Joined<More, Done extends "" | `${string}-` ? Done : `${Done}-`>
      : string
  : Done extends `${infer Cut}-`
    ? Cut
    : Done;

type Letter = Characters<"abcdefghijklmnopqrstuvwxyz0123456789">;
type Separator = Characters<" \t\n!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~">;
type Characters<Text extends string> = Text extends `${infer One}${infer More}`
  ? One | Characters<More>
  : never;
