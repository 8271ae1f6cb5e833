import type { StandardSchemaV1 } from "@standard-schema/spec";
import type * as v from "valibot";
import { inlinedJsonSchema } from "../core/agents/inlined-json-schema.ts";
import { entriesOf } from "../core/agents/shape.ts";
import { validateNow } from "../core/agents/validate-now.ts";
import { describeProblem } from "../core/base/describe-issue.ts";
import { toFlagName } from "../core/base/option.ts";
import type { FoundCommand } from "../core/service/find-commands.ts";
import type { AnyFlagsSchema, FlagsSchema } from "../core/service/plugin-command.ts";
import { UsageError } from "./errors.ts";

/** The flags of a plugin's command, as `svc` reads its own. */
export interface PluginFlags {
  readonly entries: v.ObjectEntries;
  /** What the command is called with, of what was read; throws `UsageError` naming the option. */
  checked(read: Readonly<Record<string, unknown>>): Record<string, unknown>;
}

/** Flags of any library: read by their JSON Schema, then checked by their schema. */
export function pluginFlags({ plugin, command: { usage, flags } }: FoundCommand): PluginFlags {
  if (flags === undefined || isOwn(flags))
    return { entries: flags?.entries ?? {}, checked: (read) => ({ ...read }) };
  const what = `Command "${usage}" of plugin "${plugin}", flags`;
  const entries = entriesOf(inlinedJsonSchema(flags, "input"));
  if (Object.keys(entries).length === 0)
    throw new UsageError(
      `${what}: the schema has no JSON Schema that names them`,
      "Use an object of valibot, zod 4.2 or later, or ArkType 2.1 or later.",
    );
  return {
    entries,
    checked(read) {
      const own = Object.entries(read).filter(([key, value]) => key in entries && value !== undefined);
      const result = validateNow(flags, Object.fromEntries(own), what);
      if ("value" in result) return result.value as Record<string, unknown>;
      const { path, problem } = result.refused[0]!;
      throw new UsageError(`Option ${describeProblem(path === "" ? "" : `--${toFlagName(path)}`, problem)}`);
    },
  };
}

function isOwn(flags: AnyFlagsSchema): flags is FlagsSchema {
  return (flags as StandardSchemaV1)["~standard"].vendor === "valibot";
}
