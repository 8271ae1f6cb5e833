import type { Finding } from "../../../deploy/platform.ts";
import { awsDefaults, credentialsSource } from "./aws-config.ts";
import type { AwsContext } from "./aws-context.ts";

/** With which credentials and where a deployment works, and which setting says so. */
export function loginFindings({ identity, target, tools }: AwsContext): readonly [Finding, Finding] {
  const { region } = awsDefaults(tools.env);
  const source = region?.value === target.region ? region.source : "--region or the default";
  return [
    { level: "ok", subject: "credentials", message: `${identity.arn}, from ${credentialsSource(tools.env)}` },
    { level: "ok", subject: "region", message: `${target.region}, from ${source}` },
  ];
}
