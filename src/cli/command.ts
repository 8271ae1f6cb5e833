import type * as v from "valibot";
import type { FlagsSchema } from "../core/service/plugin-command.ts";
import type { CliContext } from "./context.ts";

export type { FlagsSchema } from "../core/service/plugin-command.ts";

/** Input of a command. Arguments and text values arrive exactly as typed. */
export interface CommandInput<F extends FlagsSchema = FlagsSchema> {
  readonly args: readonly string[];
  readonly flags: v.InferOutput<F>;
  readonly context: CliContext;
}

/** One command of a program. */
export interface Command<F extends FlagsSchema = FlagsSchema> {
  /** Name and arguments: `<id>` is required, `[file]` is optional, `[...names]` collects the rest. */
  readonly usage: string;
  readonly summary: string;
  readonly flags?: F;
  /** Full command lines. */
  readonly examples?: readonly string[];
  /** Resolves with the exit code. */
  run(input: CommandInput<F>): Promise<number>;
}

/** Defines a command with inferred option types. */
export function defineCommand<F extends FlagsSchema = v.ObjectSchema<Record<never, never>, undefined>>(
  command: Command<F>,
): Command {
  return command as unknown as Command;
}

/** A group of commands, such as `svc deploy …`, loaded only when used. */
export interface CommandGroup {
  readonly name: string;
  readonly summary: string;
  load(): Promise<{
    /** Runs the arguments that follow the group's name; resolves with the exit code. */
    run(argv: readonly string[], context: CliContext): Promise<number>;
  }>;
}
