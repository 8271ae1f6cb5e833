import type { Container } from "../base/container.ts";
import { WallTimers } from "../base/wall-timers.ts";
import { EnvelopeRenewal } from "./envelope-renewal.ts";
import { LEDGER } from "./inner-tokens.ts";
import { hasFormerMark, noteKey, showOwner } from "./store-owner.ts";
import {
  AGENT_SETTINGS,
  AGENTS,
  AUDIT,
  CLOCK,
  JOBS,
  LOGGER,
  PARAMETERS,
  SIGNING_KEYS,
  STORE,
} from "./tokens.ts";

/** Encrypts what was encrypted for a former key for the present one, beside the running service. */
export function renewEnvelopes(scope: Container): EnvelopeRenewal {
  const clock = scope.get(CLOCK);
  return new EnvelopeRenewal({
    store: scope.get(STORE),
    settings: scope.get(AGENT_SETTINGS),
    ledger: scope.get(LEDGER),
    signing: scope.get(SIGNING_KEYS),
    parameters: scope.get(PARAMETERS),
    audit: scope.get(AUDIT),
    log: scope.get(LOGGER),
    clock,
    startTimer: new WallTimers(clock).start,
    noteKey: () => noteKey(scope, "rsa-key"),
  });
}

/** Stores which keys the service has, and logs what a key that is another one than before cannot read. */
export async function noteKeyChanges(scope: Container): Promise<void> {
  const log = scope.get(LOGGER);
  await noteKey(scope, "api-key");
  const isKnown = await hasFormerMark(scope);
  const isOther = await noteKey(scope, "rsa-key");
  await showOwner(scope);
  if (isOther && isKnown) log.info("the RSA key is another one than at the last start, which is still read");
  if (isOther && !isKnown) {
    log.warn(
      "the RSA key is another one than at the last start: parameters that are stored for agents cannot be read with it, and tokens of browsers and sign-ins from before are not valid. Give the former key as SERVICE_PREVIOUS_RSA_PRIVATE_KEY, or store the parameters again",
    );
  }
  const where = { status: "awaiting", stop_reason: "unreadable_parameters" };
  const unreadable = isOther
    ? await countUnreadable(scope)
    : (await scope.get(JOBS).list({ where, limit: 0 })).total;
  if (unreadable === 0) return;
  log.error(
    "the parameters of open jobs cannot be read with the present RSA key: these jobs are held. Give the service the key that they were encrypted for (SERVICE_PREVIOUS_RSA_PRIVATE_KEY; a generated one is rsa-private-key.pem in the data folder), and they resume by themselves; or stop them",
    { jobs: unreadable },
  );
}

/** Open jobs that are held, or will be once they run, as their parameters cannot be read. */
async function countUnreadable(scope: Container): Promise<number> {
  const [jobs, agents, parameters] = [scope.get(JOBS), scope.get(AGENTS), scope.get(PARAMETERS)];
  const where = { status: ["stopped", "in_progress", "awaiting"] };
  let count = 0;
  const ids = await jobs.ids({ where, sort: "id", limit: Number.POSITIVE_INFINITY });
  for (const id of ids) {
    const job = await jobs.find(id);
    if (
      job?.encrypted_agent_parameters &&
      !parameters.canOpen(job.encrypted_agent_parameters, agents.of(job))
    )
      count++;
  }
  return count;
}
