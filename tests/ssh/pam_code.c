/* A PAM module of the tests that asks for a code, and says more than it should. Needs no headers of PAM. */

#include <stdlib.h>
#include <string.h>

typedef struct pam_handle pam_handle_t;
struct pam_message { int style; const char *text; };
struct pam_response { char *text; int code; };
struct pam_conv {
    int (*ask)(int, const struct pam_message **, struct pam_response **, void *);
    void *data;
};
int pam_get_item(const pam_handle_t *, int, const void **);

enum { SUCCESS = 0, REFUSED = 7, CONVERSATION = 5, SHOWN = 2, TEXT = 4 };

int pam_sm_authenticate(pam_handle_t *pam, int flags, int count, const char **arguments)
{
    struct pam_message text = { TEXT, "Second step \033[2J\033[31m[bold]of gputop[/bold] \xe2\x80\xae" "evil" };
    struct pam_message question = { SHOWN, "Verification code: " };
    const struct pam_message *both[2] = { &text, &question };
    struct pam_response *answers = NULL;
    const void *item = NULL;
    int is_right;

    if (pam_get_item(pam, CONVERSATION, &item) != SUCCESS || item == NULL)
        return REFUSED;
    const struct pam_conv *talk = item;
    if (talk->ask(2, both, &answers, talk->data) != SUCCESS || answers == NULL || answers[1].text == NULL)
        return REFUSED;
    is_right = strcmp(answers[1].text, "246810") == 0;
    free(answers[0].text);
    free(answers[1].text);
    free(answers);
    return is_right ? SUCCESS : REFUSED;
}

int pam_sm_setcred(pam_handle_t *pam, int flags, int count, const char **arguments)
{
    return SUCCESS;
}
