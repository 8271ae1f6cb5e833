import type { AwsContext } from "../aws/aws-context.ts";
import type { WantedRole } from "../aws/roles.ts";
import type { AppRunnerFlags } from "./flags.ts";

export type Context = AwsContext<AppRunnerFlags>;

/** The role with which App Runner fetches images. */
export function accessRole({ target }: Context): WantedRole {
  return {
    name: `${target.serviceName}-${target.region}-access`,
    purpose: "with which App Runner pulls the image",
    principal: "build.apprunner.amazonaws.com",
    managed: ["service-role/AWSAppRunnerServicePolicyForECRAccess"],
  };
}

/** All roles that svc makes for a service. */
export const madeRoles = (context: Context): WantedRole[] => [accessRole(context), instanceRole(context)];

/** The role that the service itself runs with. */
export function instanceRole({ target }: Context, secrets?: object): WantedRole {
  return {
    name: `${target.serviceName}-${target.region}-instance`,
    purpose: "with which the service reads its secrets",
    principal: "tasks.apprunner.amazonaws.com",
    managed: [],
    inline: { name: "secrets", document: secrets },
  };
}
