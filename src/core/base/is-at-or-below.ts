import { isAbsolute, relative, sep } from "node:path";

/** Whether a path is a folder, or something in it. A name may begin with two dots, such as `..data` in a volume. */
export function isAtOrBelow(path: string, folder: string): boolean {
  const way = relative(folder, path);
  return way !== ".." && !way.startsWith(`..${sep}`) && !isAbsolute(way);
}
