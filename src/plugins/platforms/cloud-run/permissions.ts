import { wantsBucket } from "./buckets.ts";
import type { Context } from "./context.ts";

/** The part of a deployment that decides which permissions it needs. */
interface Building {
  readonly target: Pick<Context["target"], "storage"> & {
    readonly flags: { readonly useCloudBuild?: boolean | undefined };
  };
}

/** Permissions in the project that a deployment of this target uses. */
export function neededPermissions(context: Building): string[] {
  const { useCloudBuild } = context.target.flags;
  return [
    "run.services.get",
    "run.services.create",
    "run.services.update",
    "run.services.delete",
    "run.services.getIamPolicy",
    "run.services.setIamPolicy",
    "run.revisions.get",
    "run.revisions.list",
    "run.operations.get",
    "artifactregistry.repositories.get",
    "artifactregistry.repositories.uploadArtifacts",
    "secretmanager.secrets.create",
    "secretmanager.secrets.delete",
    "secretmanager.secrets.get",
    "secretmanager.secrets.list",
    "secretmanager.secrets.update",
    "secretmanager.secrets.getIamPolicy",
    "secretmanager.secrets.setIamPolicy",
    "secretmanager.versions.add",
    "secretmanager.versions.get",
    ...(wantsBucket(context.target)
      ? ["storage.buckets.get", "storage.buckets.getIamPolicy", "storage.buckets.setIamPolicy"]
      : []),
    ...(useCloudBuild
      ? [
          "cloudbuild.builds.create",
          "cloudbuild.builds.get",
          ...(wantsBucket(context.target) ? [] : ["storage.buckets.get"]),
          "storage.objects.create",
          "storage.objects.get",
        ]
      : []),
  ];
}

/** Permissions that only matter while something must still be created. */
export function firstTimePermissions(context: Building): string[] {
  const { useCloudBuild } = context.target.flags;
  return [
    "artifactregistry.repositories.create",
    "serviceusage.services.enable",
    ...(useCloudBuild || wantsBucket(context.target) ? ["storage.buckets.create"] : []),
  ];
}

/** Permissions of the documented role: of everything that `svc deploy` calls in the project. */
export function rolePermissions(target: Building["target"]): string[] {
  const of = { target };
  return [
    ...neededPermissions(of),
    ...firstTimePermissions(of),
    "artifactregistry.repositories.downloadArtifacts",
    "run.locations.list",
    "run.services.list",
    "secretmanager.versions.access",
    "serviceusage.services.get",
    "resourcemanager.projects.get",
    "logging.logEntries.list",
  ].sort();
}

/** The given permissions that the caller lacks. */
export async function missingPermissions(
  context: Context,
  permissions: readonly string[],
): Promise<string[]> {
  const google = await context.google();
  const held = await google.send<{ permissions?: string[] }>(
    "cloudresourcemanager",
    "POST",
    `/v1/projects/${context.project}:testIamPermissions`,
    { body: { permissions }, idempotent: true },
  );
  return permissions.filter((permission) => !held.permissions?.includes(permission));
}

/** Whether the caller may let services run as an account. */
export async function mayActAs(context: Context, account: string): Promise<boolean> {
  const google = await context.google();
  const held = await google.send<{ permissions?: string[] }>(
    "iam",
    "POST",
    `/v1/projects/-/serviceAccounts/${account}:testIamPermissions`,
    { body: { permissions: ["iam.serviceAccounts.actAs"] }, idempotent: true },
  );
  return held.permissions?.includes("iam.serviceAccounts.actAs") ?? false;
}
