/** A secret's version as kept in state and plans: `projects/p/secrets/id/versions/7`. */
export function parseSecretRef(ref: string): { readonly id: string; readonly version: string } {
  const parts = ref.split("/");
  return { id: parts[3] ?? ref, version: parts[5] ?? "latest" };
}
