import type { KeyMark } from "../../models/own-rows.ts";
import { type Objects, seal, unseal } from "./sealed.ts";

/** The key of the object that shows whose the store is. */
const MARKS = "marks";

/** The marks of the keys of the service whose store it is; none where it has not shown them, as earlier versions do not. */
export async function readMarks(objects: Objects): Promise<readonly KeyMark[]> {
  return unseal<{ marks: KeyMark[] }>(await objects.get(MARKS))?.head.marks ?? [];
}

/** Shows them, where others are shown. */
export async function showMarks(objects: Objects, marks: readonly KeyMark[]): Promise<void> {
  const bytes = seal({ marks });
  if (!(await objects.get(MARKS))?.equals(bytes)) await objects.put(MARKS, bytes);
}
