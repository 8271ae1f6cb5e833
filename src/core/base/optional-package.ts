/** What loads a package that only those have who use a feature; `explain` makes the error where it is not installed. */
export async function optionalPackage<T>(load: () => Promise<T>, explain: () => Error): Promise<T> {
  try {
    return await load();
  } catch (error) {
    const { code } = error as { code?: string };
    throw code === "ERR_MODULE_NOT_FOUND" || code === "MODULE_NOT_FOUND" ? explain() : error;
  }
}

/** What to say of it. */
export function isNotInstalled(user: string, name: string, major: number): string {
  return `${user} needs package "${name}", which is not installed. Run: npm install ${name}@${major}`;
}
