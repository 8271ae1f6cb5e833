import * as v from "valibot";
import { type Command, type CommandInput, defineCommand } from "../command.ts";
import type { CliContext } from "../context.ts";
import { connectToAdmin } from "../events/connection.ts";
import { renderTable } from "../table.ts";
import { CONNECTION_FLAGS, connect } from "./connection.ts";
import type { ServiceClient } from "./service-client.ts";

type FlagsOf<E extends v.ObjectEntries> = v.ObjectSchema<E & typeof CONNECTION_FLAGS, undefined>;

interface RequestCommand<T, E extends v.ObjectEntries>
  extends Pick<Command, "usage" | "summary" | "examples"> {
  /** Beside those that say where the service is. */
  readonly flags?: E;
  /** Whether it is asked at its admin API. @default false */
  readonly admin?: boolean;
  ask(client: ServiceClient, input: CommandInput<FlagsOf<E>>): Promise<T>;
  /** The answer for people; with `--json`, it is printed as it is. */
  show(answer: T, input: CommandInput<FlagsOf<E>>): string;
}

/** Defines a command that asks a running service for something, and prints its answer. */
export function requestCommand<T, E extends v.ObjectEntries = Record<never, never>>({
  flags,
  admin = false,
  ask,
  show,
  ...about
}: RequestCommand<T, E>): Command {
  return defineCommand({
    ...about,
    flags: v.object({ ...flags, ...CONNECTION_FLAGS }) as unknown as FlagsOf<E>,
    async run(input) {
      const given = input.flags as v.InferOutput<v.ObjectSchema<typeof CONNECTION_FLAGS, undefined>>;
      const client = await (admin ? connectToAdmin : connect)(given, input.context);
      const answer = await ask(client, input);
      input.context.print(given.json ? JSON.stringify(answer, null, 2) : show(answer, input));
      return 0;
    },
  });
}

/** A list as a table, or the sentence for an empty one. */
export function showList<T>(
  items: readonly T[],
  { empty, header, toRow }: { empty: string; header: readonly string[]; toRow: (item: T) => string[] },
  { paint }: CliContext,
): string {
  return items.length === 0 ? empty : renderTable(header, items.map(toRow), paint?.print);
}
