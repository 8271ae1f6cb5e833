import * as v from "valibot";
import { describeIssue } from "../core/base/describe-issue.ts";
import { toFlagName } from "../core/base/option.ts";
import { DeployError } from "./errors.ts";
import type { PlatformFlags } from "./platform.ts";

/** Checks the given options of a platform against its schema and adds the defaults. */
export function parseFlags(
  schema: PlatformFlags,
  given: Readonly<Record<string, unknown>>,
): Record<string, unknown> {
  const parsed = v.safeParse(schema, given);
  if (parsed.success) return parsed.output;
  const [issue] = parsed.issues;
  const key = String(issue.path?.[0]?.key ?? "");
  const flag = `--${toFlagName(key)}`;
  if (given[key] === undefined)
    throw new DeployError("usage", `${flag} is missing`, { fix: `This platform requires it: set ${flag}` });
  throw new DeployError("usage", `${flag} ${String(given[key])}: ${describeIssue(issue)}`);
}
