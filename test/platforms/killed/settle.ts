import { tick as tickExpress } from "../aws/ecs.ts";
import type { AwsState } from "../aws/state.ts";
import { tick as tickApp } from "../digitalocean/deployments.ts";
import type { GoogleState } from "../google/state.ts";
import type { CloudState } from "./world.ts";

/** More reads than any operation of the emulators takes. */
const READS = 10;

/** Brings what a cloud has under way to its end, as it does while nobody looks. */
export async function settle(state: CloudState): Promise<void> {
  if ("express" in state) return settleAws(state);
  if ("operations" in state) return settleGoogle(state);
  for (const app of state.apps.values()) for (let read = 0; read < READS; read++) await tickApp(state, app);
}

async function settleAws(state: AwsState): Promise<void> {
  for (const { operations } of state.services)
    for (const operation of operations)
      if (operation.status === "IN_PROGRESS") operation.status = await operation.finish();
  for (const service of state.express.values())
    for (let read = 0; read < READS; read++) await tickExpress(state, service);
}

async function settleGoogle({ services }: GoogleState): Promise<void> {
  for (const [id, service] of services)
    for (let read = 0; read < READS && services.has(id); read++) await service.rollout?.finish();
}
