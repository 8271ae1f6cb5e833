import { startGcs } from "../../storage/gcs-server.ts";
import type { GoogleState } from "../google/state.ts";
import { serveHttp } from "../http-server.ts";
import type { FlowCloud } from "./clouds.ts";

/** A bucket that services of a cloud store their jobs in, with what the machines of that cloud reach. */
export interface CloudBucket {
  /** The option `storage` of the deployment, and what else is in its deploy.yaml. */
  readonly storage: string;
  readonly settings: string;
  /** Whether the deployment creates it. */
  readonly created: boolean;
  /** Variables of the machines. */
  readonly machine: Readonly<Record<string, string>>;
  /** Variables of the deploying machine. */
  readonly env: Readonly<Record<string, string>>;
  attach(cloud: FlowCloud): void;
  /** Who may do what with it, in the cloud's words. */
  rights(): unknown;
  readonly wanted: unknown;
  /** Names of its objects. */
  objects(): string[];
  violations(): readonly string[];
  close(): Promise<void>;
}

/** By platform. */
export const BUCKETS: Readonly<Record<string, () => Promise<CloudBucket>>> = {
  "cloud-run": cloudStorage,
};

/** A bucket of Cloud Storage: services reach it once their account has the role on it. */
async function cloudStorage(): Promise<CloudBucket> {
  const gcs = await startGcs([], { token: "ya29.of-the-service" });
  const metadata = await serveHttp(async ({ headers }) =>
    headers["metadata-flavor"] === "Google"
      ? { status: 200, body: { access_token: "ya29.of-the-service", expires_in: 3600, token_type: "Bearer" } }
      : { status: 403 },
  );
  const ROLE = "roles/storage.objectUser";
  let state: GoogleState | undefined;
  const bindings = () => [...(state?.buckets ?? [])].map(([, { policy }]) => policy?.bindings);
  const { objects } = gcs.buckets;
  gcs.buckets.fault = (_, proceed) => {
    for (const [name, { policy }] of state?.buckets ?? [])
      if (policy?.bindings.some(({ role }) => role === ROLE) && !objects.has(name))
        objects.set(name, new Map());
    return proceed();
  };
  return {
    storage: "create",
    settings: "",
    created: true,
    machine: {
      MACHINE_HOSTS: JSON.stringify({
        "metadata.google.internal": metadata.url,
        "storage.googleapis.com": gcs.url,
      }),
    },
    env: {},
    attach(cloud) {
      state = cloud.state as GoogleState;
    },
    rights: bindings,
    wanted: [
      [{ role: ROLE, members: ["serviceAccount:123456789012-compute@developer.gserviceaccount.com"] }],
    ],
    objects: () => [...objects.values()].flatMap((one) => [...one.keys()]),
    violations: () => gcs.buckets.violations,
    async close() {
      await Promise.all([gcs.close(), metadata.close()]);
    },
  };
}
