import type { DeployTarget } from "../../../deploy/platform.ts";
import type { DeployTools } from "../../../deploy/tools.ts";
import type { Aws } from "./aws.ts";

/** The owner of the account. */
export interface AwsIdentity {
  readonly account: string;
  readonly partition: string;
  readonly arn: string;
}

/** What every part of a session on AWS works with. */
export interface AwsContext<Flags = unknown> {
  readonly target: DeployTarget<Flags>;
  readonly tools: DeployTools;
  readonly aws: Aws;
  readonly identity: AwsIdentity;
}

/** Finds out who owns these credentials. */
export async function readIdentity(aws: Aws): Promise<AwsIdentity> {
  const { Account = "", Arn = "" } = await aws.read<{ Account?: string; Arn?: string }>(
    "sts",
    "GetCallerIdentity",
  );
  return { account: Account, arn: Arn, partition: Arn.split(":")[1] ?? "aws" };
}
