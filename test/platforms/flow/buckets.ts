import { startGcs } from "../../storage/gcs-server.ts";
import { startS3 } from "../../storage/s3-server.ts";
import type { AwsState, StoredRole } from "../aws/state.ts";
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
  "aws-app-runner": s3,
  "aws-ecs-express": s3,
  "do-app-platform": spaces,
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

/** A bucket of S3: services reach it with the role that they run with, as far as its policies allow. */
async function s3(): Promise<CloudBucket> {
  const key = { id: "ASIAOFTHEROLE", secret: "secret-of-the-role", token: "token-of-the-role" };
  const server = await startS3([], { key, region: "us-east-1" });
  const { objects } = server.buckets;
  let state: AwsState | undefined;
  const policies = () =>
    rolesInUse(state)
      .flatMap(({ inline }) => [...inline.values()].map(statementsOf))
      .flat();
  const credentials = await serveHttp(async () => {
    if (rolesInUse(state).length === 0) return { status: 404 };
    const Expiration = new Date(Date.now() + 3_600_000).toISOString();
    return {
      status: 200,
      body: { AccessKeyId: key.id, SecretAccessKey: key.secret, Token: key.token, Expiration },
    };
  });
  server.buckets.fault = async ({ kind, name }, proceed) => {
    for (const bucket of state?.buckets.keys() ?? [])
      if (!objects.has(bucket)) objects.set(bucket, new Map());
    const [bucket = ""] = objects.keys();
    const place = `arn:aws:s3:::${bucket}${kind === "list" ? "" : `/${name}`}`;
    const allowed = policies().some(
      ({ Action, Resource }) =>
        [Action].flat().includes(ACTIONS[kind]) &&
        [Resource]
          .flat()
          .some((one) => (one.endsWith("*") ? place.startsWith(one.slice(0, -1)) : place === one)),
    );
    if (allowed) return proceed();
    return {
      status: 403,
      headers: { "content-type": "application/xml" },
      body: "<Error><Code>AccessDenied</Code><Message>Access Denied</Message></Error>",
    };
  };
  return {
    storage: "create",
    settings: "",
    created: true,
    machine: {
      MACHINE_HOSTS: JSON.stringify({ "169.254.170.2": credentials.url }),
      AWS_CONTAINER_CREDENTIALS_RELATIVE_URI: "/v2/credentials/task",
      AWS_ENDPOINT_URL_S3: server.url,
    },
    env: {},
    attach(cloud) {
      state = cloud.state as AwsState;
    },
    rights: () => [
      ...[...(state?.buckets.values() ?? [])].map(({ blocks }) => blocks.length),
      ...policies()
        .filter(({ Action }) => [Action].flat().some((action) => action.startsWith("s3:")))
        .map(({ Action }) => Action),
    ],
    wanted: [4, ["s3:GetObject", "s3:PutObject", "s3:DeleteObject"], "s3:ListBucket"],
    objects: () => [...objects.values()].flatMap((one) => [...one.keys()]),
    violations: () => server.buckets.violations,
    async close() {
      await Promise.all([server.close(), credentials.close()]);
    },
  };
}

/** A bucket that somebody has created, with keys of its own. */
async function spaces(): Promise<CloudBucket> {
  const server = await startS3(["agents"], { key: { id: "DO00KEY", secret: "secret-of-the-bucket" } });
  return {
    storage: `s3://agents/production?region=${server.region}&endpoint=${server.url}`,
    settings:
      "secrets: { AWS_ACCESS_KEY_ID: { env: BUCKET_KEY_ID }, AWS_SECRET_ACCESS_KEY: { env: BUCKET_SECRET_KEY } }\n",
    created: false,
    machine: {},
    env: { BUCKET_KEY_ID: "DO00KEY", BUCKET_SECRET_KEY: "secret-of-the-bucket" },
    attach: () => undefined,
    rights: () => undefined,
    wanted: undefined,
    objects: () => [...server.buckets.objects.values()].flatMap((one) => [...one.keys()]),
    violations: () => server.buckets.violations,
    close: () => server.close(),
  };
}

const ACTIONS = {
  read: "s3:GetObject",
  write: "s3:PutObject",
  create: "s3:PutObject",
  remove: "s3:DeleteObject",
  list: "s3:ListBucket",
} as const;

interface Statement {
  readonly Action: string | readonly string[];
  readonly Resource: string | readonly string[];
}

function statementsOf(document: string): readonly Statement[] {
  return (JSON.parse(document) as { Statement: readonly Statement[] }).Statement;
}

/** The roles that services run with. */
function rolesInUse(state: AwsState | undefined): readonly StoredRole[] {
  const express = [...(state?.express.values() ?? [])].map(
    ({ deployments }) => deployments[0]?.target.taskRoleArn,
  );
  const runner = (state?.services ?? []).map(
    ({ config }) =>
      (config.InstanceConfiguration as { InstanceRoleArn?: string } | undefined)?.InstanceRoleArn,
  );
  return [...(state?.roles.values() ?? [])].filter(({ arn }) => [...express, ...runner].includes(arn));
}
