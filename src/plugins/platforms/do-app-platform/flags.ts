import * as v from "valibot";
import { option } from "../../../core/base/option.ts";
import { DOMAIN_OPTION } from "../cloud/domain.ts";
import { instancesOption } from "../cloud/instances-option.ts";

const ALWAYS = "App Platform always runs an instance";

/** Options of `--platform do-app-platform`. */
export const AppPlatformFlagsSchema = v.object({
  minInstances: instancesOption("Instances that always run (1 to 250)", 1, 250, ALWAYS),
  maxInstances: instancesOption(
    "Most instances that may run (1 to 250); above the minimum needs a dedicated size",
    1,
    250,
    ALWAYS,
  ),
  scaleAtCpu: option.whole("CPU use in percent from which instances are added (new range: 80)", 1, 100),
  size: option.text("Size of an instance (new app: apps-s-1vcpu-0.5gb)"),
  domain: DOMAIN_OPTION,
  registry: option.text("Container registry to use, if the account has several"),
  registryTier: option.one(
    ["starter", "basic", "professional"],
    "Subscription of a newly created registry (default: starter, which is free)",
  ),
});
export type AppPlatformFlags = v.InferOutput<typeof AppPlatformFlagsSchema>;
