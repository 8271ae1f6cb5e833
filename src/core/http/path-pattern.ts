const PARAMETER = /\{([A-Za-z_]\w*)\}/g;

/** Names of the parameters in a path such as `/jobs/{id}`. */
export function parameterNames(path: string): string[] {
  return [...path.matchAll(PARAMETER)].map((match) => match[1]!);
}

/** The path as h3 writes it: `/jobs/:id`. */
export function toH3Path(path: string): string {
  return path.replace(PARAMETER, ":$1");
}

/** The path without its parameters' names: equal for routes that match the same requests. */
export function toShape(path: string): string {
  return path.replace(PARAMETER, "{}").replace(/(.)\/+$/, "$1");
}

/** Whether a route's path matches a request's path, with or without a trailing slash. */
export function createMatcher(path: string): (pathname: string) => boolean {
  const parts = toShape(path)
    .split("{}")
    .map((part) => part.replace(/[.*+?^$()|[\]\\{}]/g, "\\$&"));
  const pattern = new RegExp(`^${parts.join("[^/]+")}/?$`);
  return (pathname) => pattern.test(pathname);
}
