/* TensorBoard's event files: the checks, the bytes, the files. */
#include <dirent.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "train/log.h"
#include "tests/support.h"

/* Written by tensorboard 2.21.0 itself (tensorboard.compat.proto and its RecordWriter): the version at wall
 * time 1700000000.25, then the four scalars of encodes_as_tensorboard. */
static const unsigned char golden[] = {
    0x18, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0xa3, 0x7f, 0x4b, 0x22, 0x09, 0x00, 0x00, 0x10, 0x40,
    0xfc, 0x54, 0xd9, 0x41, 0x1a, 0x0d, 0x62, 0x72, 0x61, 0x69, 0x6e, 0x2e, 0x45, 0x76, 0x65, 0x6e, 0x74,
    0x3a, 0x32, 0x33, 0x8d, 0x2f, 0xe9, 0x1e, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0xd9, 0xdc, 0x12,
    0x32, 0x09, 0x00, 0x00, 0x20, 0x40, 0xfc, 0x54, 0xd9, 0x41, 0x2a, 0x13, 0x0a, 0x11, 0x0a, 0x0a, 0x74,
    0x72, 0x61, 0x69, 0x6e, 0x2f, 0x6c, 0x6f, 0x73, 0x73, 0x15, 0x18, 0x72, 0x31, 0x3f, 0x2a, 0xc2, 0xa1,
    0xf8, 0x20, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x29, 0xed, 0xa9, 0x50, 0x09, 0x00, 0x00, 0x40,
    0x40, 0xfc, 0x54, 0xd9, 0x41, 0x10, 0x01, 0x2a, 0x13, 0x0a, 0x11, 0x0a, 0x0a, 0x74, 0x72, 0x61, 0x69,
    0x6e, 0x2f, 0x6c, 0x6f, 0x73, 0x73, 0x15, 0x00, 0x00, 0x00, 0x00, 0x94, 0x23, 0x2f, 0xb5, 0x23, 0x00,
    0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0xb0, 0x9f, 0x77, 0x43, 0x09, 0x00, 0x00, 0x60, 0x40, 0xfc, 0x54,
    0xd9, 0x41, 0x10, 0xac, 0x02, 0x2a, 0x15, 0x0a, 0x13, 0x0a, 0x0c, 0x64, 0x65, 0x76, 0x2f, 0x61, 0x63,
    0x63, 0x75, 0x72, 0x61, 0x63, 0x79, 0x15, 0x00, 0x00, 0x60, 0x3f, 0xc5, 0xfc, 0xd6, 0x2b, 0x25, 0x00,
    0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0xea, 0xbc, 0x36, 0xf3, 0x09, 0x00, 0x00, 0x80, 0x40, 0xfc, 0x54,
    0xd9, 0x41, 0x10, 0x80, 0x80, 0x80, 0x80, 0x80, 0x20, 0x2a, 0x13, 0x0a, 0x11, 0x0a, 0x0a, 0x74, 0x72,
    0x61, 0x69, 0x6e, 0x2f, 0x6c, 0x6f, 0x73, 0x73, 0x15, 0x00, 0x00, 0x80, 0x7f, 0xdb, 0x88, 0x51, 0x59,
};

static void crc_has_known_answers(void **state) {
    (void)state;
    unsigned char bytes[32];
    assert_int_equal(zest_tensorboard_crc32c("", 0), 0);
    assert_int_equal(zest_tensorboard_crc32c("123456789", 9), 0xe3069283);
    memset(bytes, 0, sizeof bytes); /* RFC 3720, B.4 */
    assert_int_equal(zest_tensorboard_crc32c(bytes, sizeof bytes), 0x8a9136aa);
    memset(bytes, 0xff, sizeof bytes);
    assert_int_equal(zest_tensorboard_crc32c(bytes, sizeof bytes), 0x62a8ab43);
    for (int i = 0; i < 32; i++) bytes[i] = (unsigned char)i;
    assert_int_equal(zest_tensorboard_crc32c(bytes, sizeof bytes), 0x46dd794e);
}

static void encodes_as_tensorboard(void **state) {
    (void)state;
    zest_buffer out = {0};
    zest_tensorboard_encode_version(&out, 1700000000.25);
    zest_tensorboard_encode_scalar(&out, "train/loss", 0, 1700000000.5, 0.6931471805599453);
    zest_tensorboard_encode_scalar(&out, "train/loss", 1, 1700000001.0, 0.0);
    zest_tensorboard_encode_scalar(&out, "dev/accuracy", 300, 1700000001.5, 0.875);
    zest_tensorboard_encode_scalar(&out, "train/loss", (uint64_t)1 << 40, 1700000002.0, HUGE_VAL);
    assert_false(out.failed);
    assert_int_equal(out.size, sizeof golden);
    assert_memory_equal(out.data, golden, sizeof golden);
    zest_buffer_free(&out);
}

static uint64_t little_endian(const char *bytes, int count) {
    uint64_t value = 0;
    for (int i = count; i-- > 0;) value = value << 8 | (unsigned char)bytes[i];
    return value;
}

/* Walks the records and checks both checks of each; returns how many there are. */
static size_t count_records(const char *path) {
    zest_buffer file = {0};
    size_t count = 0, at = 0;
    assert_int_equal(zest_file_read(path, 1 << 24, &file, NULL), ZEST_OK);
    while (at < file.size) {
        assert_true(file.size - at >= 16);
        uint64_t const length = little_endian(file.data + at, 8);
        assert_true(length <= file.size - at - 16);
        for (int part = 0; part < 2; part++) {
            const char *bytes = file.data + at + (part ? 12 : 0);
            size_t const size = part ? (size_t)length : 8;
            uint32_t const crc = zest_tensorboard_crc32c(bytes, size);
            assert_int_equal(little_endian(bytes + size, 4),
                             (uint32_t)((crc >> 15 | crc << 17) + 0xa282ead8u));
        }
        at += 16 + (size_t)length;
        count++;
    }
    zest_buffer_free(&file);
    return count;
}

static void each_session_makes_a_file(void **state) {
    (void)state;
    char folder[64];
    zest_error error;
    char *names[3];
    test_folder(folder);
    for (int i = 0; i < 3; i++) { /* within one second, most likely */
        zest_tensorboard *events;
        assert_int_equal(zest_tensorboard_open(folder, &events, &error), ZEST_OK);
        names[i] = strdup(zest_tensorboard_path(events));
        assert_non_null(strstr(names[i], "/events.out.tfevents."));
        for (int step = 0; step < 1000 * i; step++)
            assert_int_equal(
                zest_tensorboard_scalar(events, "train/loss", (uint64_t)step, 1.7e9 + step, NAN, &error),
                ZEST_OK);
        assert_int_equal(zest_tensorboard_close(events, &error), ZEST_OK);
        assert_int_equal(count_records(names[i]), 1 + 1000 * i);
        if (i) assert_true(strcmp(names[i - 1], names[i]) < 0); /* TensorBoard reads in this order */
    }
    for (int i = 0; i < 3; i++) free(names[i]);
    test_remove(folder);
}

static void what_is_flushed_can_be_read(void **state) {
    (void)state;
    char folder[64];
    zest_tensorboard *events;
    test_folder(folder);
    assert_int_equal(zest_tensorboard_open(folder, &events, NULL), ZEST_OK);
    assert_int_equal(count_records(zest_tensorboard_path(events)), 1);
    assert_int_equal(zest_tensorboard_scalar(events, "", 7, 0, -0.0, NULL), ZEST_OK);
    assert_int_equal(zest_tensorboard_flush(events, NULL), ZEST_OK);
    assert_int_equal(count_records(zest_tensorboard_path(events)), 2);
    assert_int_equal(zest_tensorboard_close(events, NULL), ZEST_OK);
    assert_int_equal(zest_tensorboard_close(NULL, NULL), ZEST_OK);
    test_remove(folder);
}

static void a_missing_folder_is_named(void **state) {
    (void)state;
    zest_tensorboard *events;
    zest_error error;
    assert_int_equal(zest_tensorboard_open("/nowhere/at/all", &events, &error), ZEST_ERROR_FILE);
    assert_null(events);
    assert_non_null(strstr(error.message, "/nowhere/at/all"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(crc_has_known_answers),     cmocka_unit_test(encodes_as_tensorboard),
        cmocka_unit_test(each_session_makes_a_file), cmocka_unit_test(what_is_flushed_can_be_read),
        cmocka_unit_test(a_missing_folder_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
