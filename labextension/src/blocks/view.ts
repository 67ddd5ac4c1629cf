import { Widget } from '@lumino/widgets';
import type { Block } from '../protocol';

/** Draws the blocks of one kind; shown again with new data, it updates in place. */
export abstract class View extends Widget {
  abstract draw(block: Block): Promise<void> | void;
}
