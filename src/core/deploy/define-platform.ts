import type * as v from "valibot";
import type { FlagsSchema, Platform } from "./platform.ts";

/** Types a platform: `connect` gets the options that its schema describes. */
export function definePlatform<const F extends FlagsSchema>(
  platform: Omit<Platform<v.InferOutput<F>>, "flags"> & { readonly flags: F },
): Platform<v.InferOutput<F>> {
  return platform;
}
