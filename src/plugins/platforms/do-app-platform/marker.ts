import { parseJson } from "../../../core/base/parse-json.ts";
import type { DeployTarget } from "../../../deploy/platform.ts";
import type { AppEnv } from "./app-types.ts";

/** Apps have no labels: a variable of the service records its owner, and the keyed hashes of its secrets. */
const KEY = "SVC_DEPLOYMENT";

export interface Marker {
  readonly service: string;
  readonly environment: string;
  readonly hashes: Readonly<Record<string, string>>;
}

type Owner = Pick<DeployTarget, "name" | "environment">;

export function markerOf({ name, environment }: Owner, hashes: Readonly<Record<string, string>>): AppEnv {
  const marker: Marker = { service: name, environment, hashes };
  return { key: KEY, value: JSON.stringify(marker), scope: "RUN_TIME", type: "GENERAL" };
}

export function isMarker({ key }: AppEnv): boolean {
  return key === KEY;
}

export function readMarker(envs: readonly AppEnv[] | undefined): Marker | undefined {
  const text = envs?.find(isMarker)?.value;
  // If somebody overwrote it, it no longer marks the app as ours.
  return text === undefined ? undefined : (parseJson(text) as Marker | undefined);
}

export function isOwnApp(envs: readonly AppEnv[] | undefined, { name, environment }: Owner): boolean {
  const marker = readMarker(envs);
  return marker?.service === name && marker.environment === environment;
}
